"""Ray itself, started and stopped: on this machine alone, or a cluster that is there already.

Apart from what runs on it (`cluster`), which imports PyTorch: Ray can so be started beside that.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from fl_dp.errors import ConfigError, FederationError
from fl_dp.simulation.cluster.ray_head import lean_head

# Before Ray is imported by whoever needs them: no statistics sent home, and no warning about GPUs that an
# actor without one does not look at anyway. A process of ours is to have imported what it needs before it
# is given anything to do. Ray's processes look for each other every 20 ms instead of every second, as long:
# the first look is always too early.
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_preload_python_modules": "fl_dp.simulation.cluster.worker_imports",
    "RAY_raylet_client_connect_timeout_milliseconds": "20",
    "RAY_raylet_client_num_connect_attempts": "500",
}
# Of Linux' C library, in processes that begin from now on, unless the user has others: memory in pages of
# 2 MiB where the system has them. A round of small clients takes about 1.5 % less time.
MEMORY_SETTINGS = "GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"
_ERRORS_ONLY = 40  # logging.ERROR: Ray's own lines are for people who run Ray
_CONNECT_SECONDS = 10.0


def check_cluster(address: str) -> None:
    """Return if something listens at `address`, host:port of a cluster's head; ConfigError if not.

    To be asked before anything else is done: Ray itself tries for five minutes, then ends the process.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ConfigError(
            f"--ray-address {address}: expected HOST:PORT, as `ray start --head` says it (port 6379)."
        )
    try:
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"--ray-address {address}: no Ray cluster answers there ({error}); start one with "
            "`ray start --head`, or leave the option out to use this machine alone."
        ) from None


@contextmanager
def running(address: str, scratch: Path, cpus: int) -> Iterator[None]:
    """Ray is there within it: the cluster at `address`, or one of `cpus` cores on this machine if empty.

    scratch: a folder with a short path, for the sockets of a Ray of our own. ConfigError when there is
    no cluster at that address, or one that this Python and Ray cannot be part of.
    """
    if address:
        check_cluster(address)
    os.environ.update(SETTINGS)
    os.environ.setdefault(*MEMORY_SETTINGS)
    import ray  # late: it reads the settings above

    options: dict[str, Any] = {"log_to_driver": False, "logging_level": _ERRORS_ONLY}
    if address:
        options |= {"address": address}
    else:
        options |= {"num_cpus": cpus, "include_dashboard": False, "_temp_dir": str(scratch)}
    try:
        with nullcontext() if address else lean_head():
            ray.init(**options)
    except (ConnectionError, RuntimeError, SystemExit) as error:  # SystemExit: Ray has given up
        if not address:
            raise FederationError(f"Ray does not start on this machine: {_one_line(error)}") from error
        raise ConfigError(
            f"--ray-address {address}: this process cannot join the Ray cluster: {_one_line(error)}"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
