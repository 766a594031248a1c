"""A Ray of one machine, without the processes that serve only people and clusters, and waited for closely.

Ray starts five Python processes beside its two of C++. Two are agents that it cannot do without. The others
autoscale, serve the dashboard's rest (even if there is to be no dashboard) and pass on what workers print:
none of it is used here, and each imports Ray, 1.6 seconds of a core together, before the first worker may
start. `ray.init` has no settings for it, so methods of a class of its own are put aside. A Ray that has no
methods of these names starts all that it wants to, as without this.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_POLL_SECONDS = 0.02
_LOOK_SECONDS = 30.0  # after which Ray looks itself, and says what is wrong


@contextmanager
def lean_head() -> Iterator[None]:
    """Within it, `ray.init` starts what actors need, and returns as soon as that is there."""
    from ray._private import node  # late: Ray is to be told its settings before

    whole = node.Node

    class LeanNode(whole):  # type: ignore[misc, valid-type]
        """As Ray's own, but for what it starts."""

        def start_monitor(self) -> None:
            """No autoscaler."""

        def start_log_monitor(self) -> None:
            """Nobody reads what workers print but in their log files."""

        def start_api_server(self, **_: Any) -> None:
            """No dashboard, and so no address of one."""
            self._webui_url = ""

        def start_ray_processes(self) -> None:
            """Start them, and return when they are there: Ray would look once a second."""
            super().start_ray_processes()
            _wait_for_node(self.get_gcs_client())

    node.Node = LeanNode
    try:
        yield
    finally:
        node.Node = whole


def _wait_for_node(gcs: Any) -> None:
    """Return when a machine has told Ray's server that it is there."""
    deadline = time.monotonic() + _LOOK_SECONDS
    while not gcs.get_all_node_info() and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
