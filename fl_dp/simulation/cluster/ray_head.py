"""Starts Ray on one machine faster and quieter, without the processes that only people and clusters need.

Ray starts five Python processes besides its two in C++. Two are agents that it needs. The other three
autoscale, serve the rest of the dashboard (even if there is none) and forward what workers print. None of
this is used here, and each process imports Ray, 1.6 seconds of a core together, before the first worker can
start. `ray.init` has no settings to disable them, so the methods that start them are overridden. A version of
Ray without methods of these names starts everything, as it would without this file.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

logger = logging.getLogger("fl_dp.clients")

_POLL_SECONDS = 0.02
_LOOK_SECONDS = 30.0  # then follows Ray's own check, which says what is wrong


@contextmanager
def lean_head() -> Iterator[None]:
    """Within this context `ray.init` starts only what actors need, and returns as soon as that runs."""
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


@contextmanager
def errors_in_the_log() -> Iterator[None]:
    """Within this context, Ray's messages about dead processes go to the clients' log, not to the console.

    They go to that log because they may contain tracebacks. `ray.init` has no setting for it: its thread
    prints each message, with colours even into a pipe. The run itself logs what follows for the round.
    """
    from ray._private import worker  # late: as above

    printed = worker.print_to_stdstream

    def log(data: Mapping[str, Any], ignore_prefix: bool = False) -> None:
        for line in data["lines"]:
            logger.warning("Ray (%s): %s", data["pid"], line)

    worker.print_to_stdstream = log
    try:
        yield
    finally:
        worker.print_to_stdstream = printed


def _wait_for_node(gcs: Any) -> None:
    """Return when this machine has registered with Ray's server."""
    deadline = time.monotonic() + _LOOK_SECONDS
    while not gcs.get_all_node_info() and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
