"""What Flower's Grid also asks for, and what fl_dp's own server never uses: written once for all grids."""

from collections.abc import Callable, Collection, Iterable
from typing import Any

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fl_dp.federation.wire.send_receive import receive, send


def sites_of(grid: Grid) -> Collection[str] | None:
    """The names of the sites that may take part by now; None: whoever comes, as at grids of Flower's own."""
    found: Collection[str] | None = getattr(grid, "sites", None)
    return found


def site_at(grid: Grid, node: int) -> str | None:
    """The name of the site that is at the node; None where the grid cannot know it before it is asked."""
    named: Callable[[int], str | None] | None = getattr(grid, "site_at", None)
    return named(node) if named else None


class OlderGrid(Grid):
    """A grid that pushes and pulls, with Flower's older interface on top, for strategies that need it.

    What is left to write: `get_node_ids`, `push_messages`, `pull_messages`.
    """

    _run: Any = None

    def set_run(self, run: Any) -> None:
        """Flower's record of the run."""
        self._run = run

    @property
    def run(self) -> Any:
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """As Flower's, without its pauses of 3 s. timeout: in seconds; None: until all have answered."""
        return receive(self, send(self, list(messages)), float("inf") if timeout is None else timeout)
