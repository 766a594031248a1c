"""Starts and stops Ray on this machine, or joins a running cluster.

This file imports nothing that runs on Ray, and so not PyTorch: Ray can start while PyTorch is
being imported.
"""

import logging
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TextIO

from fl_dp.clean_text import one_line
from fl_dp.errors import ConfigError, FederationError

logger = logging.getLogger("fl_dp.clients")

# Set before Ray is imported. In this order: Ray sends no usage statistics. It does not warn about GPUs, which
# an actor without one does not use. A worker imports what an actor needs before it gets work. Ray's processes
# look for each other every 20 ms instead of every second, for as long in total, because the first look is
# always too early.
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_preload_python_modules": "fl_dp.simulation.cluster.worker_imports",
    "RAY_raylet_client_connect_timeout_milliseconds": "20",
    "RAY_raylet_client_num_connect_attempts": "500",
}
# For the C library of Linux, in processes started from now on, unless the user has set it: memory in pages of
# 2 MiB if the system has them. A round of small clients takes about 1.5 % less time.
MEMORY_SETTINGS = "GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"
_SET_BY_RAY = ("PYTHONBREAKPOINT",)  # when it starts; a notebook's breakpoint() would call Ray's later
_ERRORS_ONLY = 40  # logging.ERROR: Ray's other lines are about Ray itself, not about the run
_CONNECT_SECONDS = 10.0
_MOST_OF_AN_ERROR = 1000  # characters of Ray's message
_RAYS_THREADS = "ray_"  # how the names of Ray's own threads begin
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_POLL_SECONDS = 0.02
_LOOK_SECONDS = 30.0  # then follows Ray's own check, which says what is wrong


def check_cluster(address: str) -> None:
    """ConfigError unless something listens at `address`, host:port of a cluster's head.

    Call it first: Ray itself would try for five minutes, then end this process.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ConfigError(
            f"--ray-address {address}: expected HOST:PORT, as `ray start --head` prints it (port 6379)."
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
    """Within this context Ray runs: the cluster at `address`; if that is empty, `cpus` cores of this machine.

    scratch: a folder with a short path, for the sockets of Ray on this machine. If the user's own program has
    started Ray, that is used, and left running. ConfigError if there is no cluster at that address, or if it
    runs another version of Python or Ray.
    """
    if ray_is_there():
        if address:
            raise ConfigError(
                f"--ray-address {address}: this process has already joined a Ray cluster; call "
                "ray.shutdown()."
            )
        yield
        return
    if address:
        check_cluster(address)
    with output_in_the_log(), _started(address, scratch, cpus):
        yield


def ray_is_there() -> bool:
    """Whether this process already uses Ray."""
    return "ray" in sys.modules and bool(sys.modules["ray"].is_initialized())


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Add `wanted` to the environment within this context, and restore it afterwards."""
    before = dict(os.environ)
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name in (*wanted, *_SET_BY_RAY):
            os.environ.pop(name, None)
            if name in before:
                os.environ[name] = before[name]


@contextmanager
def _started(address: str, scratch: Path, cpus: int) -> Iterator[None]:
    name, value = MEMORY_SETTINGS
    with _environment({**SETTINGS, name: os.environ.get(name, value)}):
        ray = _init(address, scratch, cpus)
    try:
        yield
    finally:
        ray.shutdown()


def _init(address: str, scratch: Path, cpus: int) -> Any:
    """Start Ray, or join a cluster; returns its module, which has no types."""
    import ray  # late: Ray reads its settings when it is imported

    options: dict[str, Any] = {"log_to_driver": False, "logging_level": _ERRORS_ONLY}
    if address:
        options |= {"address": address}
    else:
        folder = scratch / "r"  # Ray opens it to all users; the parent keeps it, and its logs, closed to them
        options |= {"num_cpus": cpus, "include_dashboard": False, "_temp_dir": str(folder)}
    try:
        with nullcontext() if address else lean_head():
            ray.init(**options)
    except (Exception, SystemExit) as error:  # SystemExit, and an Exception of no class: Ray gives up
        words = one_line(error, _MOST_OF_AN_ERROR)
        if not address:
            raise FederationError(f"Ray does not start on this machine: {words}") from error
        raise ConfigError(
            f"--ray-address {address}: this process cannot join the Ray cluster: {words}"
        ) from error
    return ray


@contextmanager
def lean_head() -> Iterator[None]:
    """Within this context `ray.init` starts only what actors need, and returns as soon as that runs.

    Ray starts five Python processes besides its two in C++. Two are agents that it needs. The other three
    autoscale, serve the rest of the dashboard (even if there is none) and forward what workers print. None of
    this is used here, and each process imports Ray, 1.6 seconds of a core together, before the first worker
    can start. `ray.init` has no settings to disable them, so the methods that start them are overridden. A
    version of Ray without methods of these names starts everything.
    """
    from ray._private import node  # late: Ray reads its settings when it is imported

    whole = node.Node

    class LeanNode(whole):  # type: ignore[misc, valid-type]
        """Ray's own class, with fewer processes."""

        def start_monitor(self) -> None:
            """No autoscaler."""

        def start_log_monitor(self) -> None:
            """No log monitor: what workers print is in their log files anyway."""

        def start_api_server(self, **_: Any) -> None:
            """No dashboard; Ray expects its address, which is left empty."""
            self._webui_url = ""

        def start_ray_processes(self) -> None:
            """Start the processes, and poll often whether they run: Ray itself polls once a second."""
            super().start_ray_processes()
            _wait_for_node(self.get_gcs_client())

    node.Node = LeanNode
    try:
        yield
    finally:
        node.Node = whole


class _WithoutRay:
    """A standard stream; what Ray's threads write goes to the clients' log instead.

    One of them prints messages about dead processes, which may contain tracebacks, and so quote records.
    `ray.init` has no setting for it. The run itself logs what follows for the round.
    """

    _logging = threading.local()

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        if not threading.current_thread().name.startswith(_RAYS_THREADS):
            return self._stream.write(text)
        words = one_line(_COLOURS.sub("", text), _MOST_OF_AN_ERROR)
        if words and not getattr(
            self._logging, "now", False
        ):  # else a handler of the log writes to the console
            self._logging.now = True
            try:
                logger.warning("Ray: %s", words)
            finally:
                self._logging.now = False
        return len(text)


@contextmanager
def output_in_the_log() -> Iterator[None]:
    """Within this context nothing that Ray's threads print gets to the console."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_WithoutRay, before)
    try:
        yield
    finally:
        for name, stream in zip(("stdout", "stderr"), before, strict=True):
            if isinstance(getattr(sys, name), _WithoutRay):  # nobody else has replaced it
                setattr(sys, name, stream)


def _wait_for_node(gcs: Any) -> None:
    """Return when this machine has registered with Ray's server."""
    deadline = time.monotonic() + _LOOK_SECONDS
    while not gcs.get_all_node_info() and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
