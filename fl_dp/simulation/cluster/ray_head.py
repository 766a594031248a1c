"""Ray on one machine, started faster: without the processes that only people and clusters need.

Ray starts five Python processes beside its two in C++. Two are agents that it needs. The other three
autoscale, serve the rest of the dashboard (even when there is none) and pass on what workers print. None of
this is used here, and each process imports Ray, 1.6 seconds of a core together, before the first worker can
start. `ray.init` has no settings to leave them out, so the methods that start them are overridden. A version
of Ray without methods of these names starts everything, as it would without this file.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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


def _wait_for_node(gcs: Any) -> None:
    """Return when this machine has registered with Ray's server."""
    deadline = time.monotonic() + _LOOK_SECONDS
    while not gcs.get_all_node_info() and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
