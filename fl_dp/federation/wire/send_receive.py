"""Sends messages and receives replies, over any Flower Grid.

Flower's own `send_and_receive` polls for replies every 3 s; a round of a small model takes less.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fl_dp.clean_text import one_line
from fl_dp.errors import FederationError

logger = logging.getLogger("fl_dp")

SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds


class BaseGrid(Grid):
    """A grid that pushes and pulls. It also has the methods of Flower's Grid that Flower's own strategies
    use, and fl_dp's server does not.

    Subclasses implement `get_node_ids`, `push_messages` and `pull_messages`.
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
        """As in Flower, but without its pauses of 3 s. timeout: in seconds; None: until all have answered."""
        return receive(self, send(self, list(messages)), float("inf") if timeout is None else timeout)


def sites_of(grid: Grid) -> Collection[str] | None:
    """The names of the sites that may take part now; None: anybody may, as with Flower's own grids."""
    found: Collection[str] | None = getattr(grid, "sites", None)
    return found


def site_at(grid: Grid, node: int) -> str | None:
    """The name of the site at the node; None if the grid cannot know it before the node is asked."""
    named: Callable[[int], str | None] | None = getattr(grid, "site_at", None)
    return named(node) if named else None


def send(grid: Grid, messages: Sequence[Message]) -> dict[str, int]:
    """Send the messages; returns the node asked, by message id, of those that were sent.

    A message gets its id when a grid pushes it.
    """
    if not messages:
        return {}
    sent = set(grid.push_messages(messages))
    ids = {message.metadata.message_id: message.metadata.dst_node_id for message in messages}
    return {message_id: node_id for message_id, node_id in ids.items() if message_id in sent}


def receive(
    grid: Grid,
    waiting: Collection[str],
    timeout: float,
    is_closed: Callable[[Sequence[Message]], bool] = lambda replies: False,
) -> list[Message]:
    """Wait for replies to the messages `waiting` until all are there or `timeout` seconds have passed.

    Returns the first reply to each message; a reply that answers none of them is dropped and logged. Missing
    replies are then given up. is_closed: whether the replies so far are enough.
    """
    started = time.monotonic()
    missing = set(waiting)
    replies: list[Message] = []
    while missing:
        asked = time.monotonic()
        new = pull(grid, missing)
        missing -= new.keys()
        replies += new.values()
        if not missing or is_closed(replies) or time.monotonic() - started >= timeout:
            break
        if time.monotonic() - asked < SHORTEST_PAUSE:  # otherwise the grid itself has waited
            pause(started)
    give_up(grid, missing)
    return replies


def give_up(grid: Grid, message_ids: Iterable[str]) -> None:
    """Tell the grid that nobody waits for these answers any more. No effect on Flower's own grids."""
    forget: Callable[[Iterable[str]], None] | None = getattr(grid, "give_up", None)
    if forget:
        forget(list(message_ids))


def pull(grid: Grid, waiting: Collection[str]) -> dict[str, Message]:
    """The replies so far, by the message of `waiting` that each answers; the first if there are several."""
    found: dict[str, Message] = {}
    for reply in grid.pull_messages(list(waiting)):
        answered = reply.metadata.reply_to_message_id
        if answered in waiting and answered not in found:
            found[answered] = reply
        else:
            logger.warning("a reply is dropped: it answers nothing that waits for an answer")
    return found


def require_answer(reply: Message, question: Message) -> RecordDict:
    """The reply's content; FederationError for an error, and for a reply that does not answer `question`.

    All of the reply is the sender's word, even node, run, round and kind of message.
    """
    if reply.has_error():
        raise FederationError(
            one_line(reply.error.reason or "") or f"error {reply.error.code}, without a reason"
        )
    told, asked = reply.metadata, question.metadata
    if told.src_node_id != asked.dst_node_id:
        raise FederationError("a reply that comes from another node than was asked")
    if (told.run_id, told.group_id, told.message_type) != (asked.run_id, asked.group_id, asked.message_type):
        raise FederationError("a reply to a message of another run, round or kind")
    if not reply.has_content():
        raise FederationError("a reply without content")
    return reply.content


def pause(started: float) -> None:
    """Sleep a twentieth of the time since `started`, within limits: prompt at first, cheap later."""
    waited = time.monotonic() - started
    time.sleep(min(max(waited / 20, SHORTEST_PAUSE), LONGEST_PAUSE))
