"""What is sent and received over any grid, how long that takes, and what Flower's strategies ask for."""

import time
from collections.abc import Iterable
from types import SimpleNamespace

from flwr.app import ConfigRecord, Message, MessageType, RecordDict

from fl_dp.config.run import RunConfig
from fl_dp.federation.wire.send_receive import BaseGrid, receive, send
from fl_dp.launch.progress_grid import ProgressGrid


def echo(message):
    return Message(message.content, reply_to=message)


def questions(*nodes):
    return [Message(RecordDict(), node, "query") for node in nodes]


def test_what_could_not_be_sent_is_not_waited_for(fakes):
    class Full(fakes.Grid):
        def push_messages(self, messages):
            first, *rest = messages
            return [*super().push_messages([first]), *(None for _ in rest)]

    grid = Full({1: echo, 2: echo})
    sent = send(grid, questions(1, 2))
    assert list(sent.values()) == [1]
    assert len(receive(grid, sent, timeout=60)) == 1


def test_what_is_not_answered_in_time_is_given_up_also_through_a_grid_that_only_looks_on(fakes):
    grid, given_up = fakes.Grid({1: echo, 2: lambda message: None}), []
    grid.give_up = given_up.extend
    told = SimpleNamespace(doing=lambda words: None, asked=None, answered=None, rounds_over=0)
    through = ProgressGrid(grid, RunConfig(), told)
    sent = send(through, questions(1, 2))
    assert len(receive(through, sent, timeout=60, is_closed=lambda replies: len(replies) == 1)) == 1
    assert given_up == [key for key, node in sent.items() if node == 2]


def test_nothing_to_send(fakes):
    assert send(fakes.Grid(), []) == {}
    assert receive(fakes.Grid(), {}, timeout=60) == []


class Slow(BaseGrid):
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


def asked(grid: BaseGrid, *nodes: int) -> list[Message]:
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
