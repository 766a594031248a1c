"""Ray as a simulation uses it: on this machine alone, or a cluster that is there already."""

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray

from fl_dp.errors import ConfigError, FederationError
from fl_dp.federation.messages import one_line
from fl_dp.simulation.actor import TrainingActor
from fl_dp.simulation.tasks import ActorSettings

# Before Ray is imported by whoever needs them: no statistics sent home, and no warning about GPUs that an
# actor without one does not look at anyway.
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
_ERRORS_ONLY = 40  # logging.ERROR: Ray's own lines are for people who run Ray
_CONNECT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Node:
    """What one machine has: cores and GPUs, and bytes of memory for tasks (Ray leaves out its store)."""

    cpus: float
    gpus: float
    memory: int


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
    os.environ.update(QUIET)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": _ERRORS_ONLY}
    if address:
        options |= {"address": address}
    else:
        options |= {"num_cpus": cpus, "include_dashboard": False, "_temp_dir": str(scratch)}
    try:
        ray.init(**options)
    except (ConnectionError, RuntimeError, SystemExit) as error:  # SystemExit: Ray has given up
        if not address:
            raise FederationError(f"Ray does not start on this machine: {one_line(str(error))}") from error
        raise ConfigError(
            f"--ray-address {address}: this process cannot join the Ray cluster: {one_line(str(error))}"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def nodes() -> list[Node]:
    """The machines that are alive now."""
    return [_node(one["Resources"]) for one in ray.nodes() if one["Alive"]]


def hirer(shared: Any, settings: ActorSettings, resources: Mapping[str, float]) -> Callable[[], Any]:
    """What starts an actor: `shared` is a reference to the data; `resources` are Ray's words for its share.

    An actor that dies is not restarted by Ray, which would give its clients to a process that has no sum.
    """
    remote = ray.remote(TrainingActor).options(max_restarts=0, max_task_retries=0, **resources)
    return lambda: remote.remote(shared, settings)


def _node(resources: Mapping[str, float]) -> Node:
    return Node(resources.get("CPU", 0.0), resources.get("GPU", 0.0), int(resources.get("memory", 0)))
