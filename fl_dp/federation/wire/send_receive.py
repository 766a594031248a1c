"""What a grid of fl_dp can do, and the one way to ask over it: questions go out, answers come in.

Flower's own `send_and_receive` polls every 3 s for replies; a round of a small model takes less.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from flwr.app import Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid

from fl_dp.clean_text import one_line
from fl_dp.errors import FederationError
from fl_dp.kits.roster import Site

logger = logging.getLogger("fl_dp")

SHORTEST_PAUSE, LONGEST_PAUSE = 0.02, 2.0  # seconds
_A_WAIT = 0.1  # seconds; a grid that takes longer to pull has waited itself

Key = TypeVar("Key")  # by which the asker knows a question


class BaseGrid(Grid):
    """A grid of fl_dp. Subclasses implement `get_node_ids`, `push_messages` and `pull_messages`.

    The other methods of Flower's Grid are for Flower's own strategies; fl_dp's server does not use them.

    adds_up: it answers with sums, if asked to (`partial_sums.py`). Only a grid in this process can: a sum
    from another machine is no client's update.
    """

    adds_up = False
    _run: Any = None

    @property
    def sites(self) -> Collection[str] | None:
        """The names of the sites that may take part now; None: anybody may."""
        return None

    def site_of(self, node: int) -> Site | None:
        """The site at the node; None if it is gone, or if the grid does not know it."""
        return None

    def give_up(self, message_ids: Iterable[str]) -> None:
        """Nobody waits for the answers to these messages any more."""

    def set_run(self, run: Any) -> None:
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
        seconds = float("inf") if timeout is None else timeout
        return [reply for _, reply in ask(self, dict(enumerate(messages)), seconds)]


class FlowerGrid(BaseGrid):
    """A grid that is not fl_dp's: only its push and pull are used, whatever else it claims."""

    def __init__(self, below: Grid) -> None:
        self._below = below

    def set_run(self, run: Any) -> None:
        self._below.set_run(run)

    @property
    def run(self) -> Any:
        return self._below.run

    def get_node_ids(self) -> Iterable[int]:
        return self._below.get_node_ids()

    def get_nodes(self) -> Iterable[NodeInfo]:
        return self._below.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return self._below.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return self._below.pull_messages(message_ids)


class GridOver(FlowerGrid):
    """A grid over another of fl_dp, with its abilities; subclasses change what passes through."""

    _below: BaseGrid

    def __init__(self, below: BaseGrid) -> None:
        super().__init__(below)
        self.adds_up = below.adds_up

    @property
    def sites(self) -> Collection[str] | None:
        return self._below.sites

    def site_of(self, node: int) -> Site | None:
        return self._below.site_of(node)

    def give_up(self, message_ids: Iterable[str]) -> None:
        self._below.give_up(message_ids)


def own_grid(grid: Grid) -> BaseGrid:
    """The grid itself if it is fl_dp's, else one over it."""
    return grid if isinstance(grid, BaseGrid) else FlowerGrid(grid)


def ask(
    grid: BaseGrid,
    questions: Mapping[Key, Message],
    seconds: float,
    is_enough: Callable[[Collection[Key], float], bool] = lambda missing, waited: False,
    *,
    leave_open: bool = False,
) -> Iterator[tuple[Key, Message]]:
    """Send the questions and yield the first answer to each as it comes, until all are there or time is up.

    Questions that could not be sent are not waited for. A reply to no question is dropped and logged.

    is_enough: whether the answers so far are enough without the `missing`, `waited` seconds after all were
    sent. leave_open: a question without an answer may still be read; else it is given up.
    """
    waiting = send(grid, questions)
    started = time.monotonic()
    try:
        while waiting:
            looked = time.monotonic()
            new = pull(grid, waiting)
            has_waited = time.monotonic() - looked >= _A_WAIT
            yield from new
            del new  # with the arrays that nobody has kept
            waited = time.monotonic() - started
            # the time of the look counts, not the present: a busy caller must not lose an answer
            if not waiting or is_enough(waiting.values(), waited) or looked - started >= seconds:
                break
            if not has_waited:
                pause(started)
    finally:  # also if the caller stops: a client that still reads its question would pay for nothing
        if not leave_open:
            grid.give_up(waiting)


def send(grid: BaseGrid, questions: Mapping[Key, Message]) -> dict[str, Key]:
    """Send the questions; returns those that were sent, by message id, which a grid gives when it pushes."""
    if not questions:
        return {}
    sent = set(grid.push_messages(list(questions.values())))
    by_id = {message.metadata.message_id: key for key, message in questions.items()}
    return {message_id: key for message_id, key in by_id.items() if message_id in sent}


def pull(grid: BaseGrid, waiting: dict[str, Key]) -> list[tuple[Key, Message]]:
    """The replies so far; their questions are removed from `waiting`. Only the first reply to each counts."""
    found = []
    for reply in grid.pull_messages(list(waiting)):
        answered = reply.metadata.reply_to_message_id
        if answered in waiting:
            found.append((waiting.pop(answered), reply))
        else:
            logger.warning("a reply is dropped: it answers nothing that waits for an answer")
    return found


def require_answer(reply: Message, question: Message) -> RecordDict:
    """The reply's content; FederationError for an error, and for a reply that does not answer `question`.

    Nothing in the reply is trusted, not even its node, run, round and kind of message.
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
    """Sleep a fiftieth of the time since `started`, within limits: prompt at first, cheap later."""
    waited = time.monotonic() - started
    time.sleep(min(max(waited / 50, SHORTEST_PAUSE), LONGEST_PAUSE))
