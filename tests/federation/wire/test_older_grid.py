"""The part of Flower's Grid that its older strategies use, over grids that push and pull alone."""

import time
from collections.abc import Iterable

from flwr.app import ConfigRecord, Message, MessageType, RecordDict

from fl_dp.federation.wire.older_grid import OlderGrid


class Slow(OlderGrid):
    """Answers one message a pull, and never that to node 9."""

    def __init__(self) -> None:
        self.open: dict[str, Message] = {}

    def get_node_ids(self) -> Iterable[int]:
        return [1, 2, 9]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(message.metadata.dst_node_id)
            self.open[message.metadata.message_id] = message
        return list(self.open)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        for message_id in message_ids:
            if message_id in self.open and message_id != "9":
                return [Message(RecordDict({"x": ConfigRecord()}), reply_to=self.open.pop(message_id))]
        return []


def asked(grid: OlderGrid, *nodes: int) -> list[Message]:
    return [grid.create_message(RecordDict(), MessageType.QUERY, node, "3", ttl=60.0) for node in nodes]


def test_all_replies_are_waited_for_until_the_time_is_over() -> None:
    replies = Slow().send_and_receive(asked(Slow(), 1, 2))
    assert sorted(one.metadata.src_node_id for one in replies) == [1, 2]
    began = time.monotonic()
    replies = Slow().send_and_receive(asked(Slow(), 1, 9), timeout=0.2)
    assert [one.metadata.src_node_id for one in replies] == [1]
    assert time.monotonic() - began >= 0.2


def test_a_message_is_made_as_asked() -> None:
    (message,) = asked(Slow(), 2)
    said = message.metadata
    assert (said.dst_node_id, said.message_type, said.group_id, said.ttl) == (2, "query", "3", 60.0)


def test_the_run_is_the_one_that_was_set() -> None:
    grid, other = Slow(), Slow()
    grid.set_run("a run")
    assert (grid.run, other.run) == ("a run", None)
