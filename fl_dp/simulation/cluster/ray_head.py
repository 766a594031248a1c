"""Ray on one machine, started faster, and quieter: without the processes that only people and clusters need.

Ray starts five Python processes beside its two in C++. Two are agents that it needs. The other three
autoscale, serve the rest of the dashboard (even when there is none) and pass on what workers print. None of
this is used here, and each process imports Ray, 1.6 seconds of a core together, before the first worker can
start. `ray.init` has no settings to leave them out, so the methods that start them are overridden. A version
of Ray without methods of these names starts everything, as it would without this file.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

logger = logging.getLogger("fl_dp.clients")

_POLL_SECONDS = 0.02
_LOOK_SECONDS = 30.0  # after that Ray's own check follows, which says what is wrong


@contextmanager
def lean_head() -> Iterator[None]:
    """Within this context `ray.init` starts only what actors need, and returns as soon as that runs."""
    from ray._private import node  # late: Ray reads its settings when it is imported

    whole = node.Node

    class LeanNode(whole):  # type: ignore[misc, valid-type]
        """Ray's own class, which starts less."""

        def start_monitor(self) -> None:
            """No autoscaler."""

        def start_log_monitor(self) -> None:
            """What workers print is in their log files, where Ray puts it anyway."""

        def start_api_server(self, **_: Any) -> None:
            """No dashboard; Ray expects an address of one, which is empty."""
            self._webui_url = ""

        def start_ray_processes(self) -> None:
            """Start them, and look often whether they run: Ray itself looks once a second."""
            super().start_ray_processes()
            _wait_for_node(self.get_gcs_client())

    node.Node = LeanNode
    try:
        yield
    finally:
        node.Node = whole


@contextmanager
def errors_in_the_log() -> Iterator[None]:
    """Within it, what Ray says of processes that died is in the clients' log, not on the console.

    That log, because the text may be a traceback. `ray.init` has no setting for it: its thread prints each
    message, in colours, also in a pipe. What follows for the round is said there by the run itself.
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
