"""What is sent and received over any grid, how long that takes, and what Flower's strategies ask for."""

import time
from collections.abc import Iterable
from types import SimpleNamespace

import pytest
from flwr.app import ConfigRecord, Message, MessageType, RecordDict

from fl_dp.config.run import RunConfig
from fl_dp.federation.wire.messages import set_metadata
from fl_dp.federation.wire.send_receive import BaseGrid, ask
from fl_dp.launch.progress_grid import ProgressGrid


def echo(message):
    return Message(message.content, reply_to=message)


def questions(*nodes):
    return {node: Message(RecordDict(), node, "query") for node in nodes}


def one_is_enough(missing, waited):
    return len(missing) == 1


def test_an_unsent_message_is_not_waited_for(fakes):
    class Full(fakes.Grid):
        def push_messages(self, messages):
            first, *rest = messages
            return [*super().push_messages([first]), *(None for _ in rest)]

    answers = dict(ask(Full({1: echo, 2: echo}), questions(1, 2), 60))
    assert list(answers) == [1]


@pytest.mark.parametrize("left", [False, True])
def test_a_message_not_answered_in_time_is_given_up_also_through_a_wrapping_grid(fakes, left):
    """Or left to who is slow, if the next question cannot be understood without it."""
    grid, given_up = fakes.Grid({1: echo, 2: lambda message: None}), []
    grid.give_up = given_up.extend
    told = SimpleNamespace(doing=lambda words: None, asked=None, answered=None, rounds_over=0)
    through, asked = ProgressGrid(grid, RunConfig(), told), questions(1, 2)
    assert len(dict(ask(through, asked, 60, one_is_enough, leave_open=left))) == 1
    assert given_up == ([] if left else [asked[2].metadata.message_id])


def test_a_caller_that_stops_reading_gives_up_the_other_messages(fakes):
    """For example if it fails: a site that reads its question later would pay in vain."""
    grid, given_up = fakes.Grid({1: echo, 2: lambda message: None}), []
    grid.give_up, sent = given_up.extend, questions(1, 2)
    answers = ask(grid, sent, 60)
    assert next(answers)[0] == 1
    with pytest.raises(ZeroDivisionError):
        answers.throw(ZeroDivisionError)
    assert given_up == [sent[2].metadata.message_id]


def test_a_second_answer_and_one_to_nothing_are_dropped(fakes, caplog):
    class Chatty(fakes.Grid):
        def pull_messages(self, message_ids):
            found = super().pull_messages(message_ids)
            return [*found, *found, Message(RecordDict(), 1, "query")]

    answers = list(ask(Chatty({1: echo, 2: echo}), questions(1, 2), 60))
    assert sorted(node for node, _ in answers) == [1, 2]
    assert caplog.text.count("it answers nothing that waits for an answer") == 3


def test_nothing_to_send(fakes):
    assert list(ask(fakes.Grid(), {}, 60)) == []


class Slow(BaseGrid):
    """Answers one message a pull, and never that to node 9."""

    def __init__(self) -> None:
        self.open: dict[str, Message] = {}

    def get_node_ids(self) -> Iterable[int]:
        return [1, 2, 9]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        for message in messages:
            set_metadata(message, message_id=str(message.metadata.dst_node_id))
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


def test_an_answer_in_time_is_taken_even_if_the_asker_was_busy_until_later() -> None:
    """Slow answers one message a pull; it is paid for, and would be lost."""
    grid, busy = Slow(), []
    for node, _ in ask(grid, dict(enumerate(asked(grid, 1, 2))), 0.1):
        busy.append(node)
        time.sleep(0.11)
    assert busy == [0, 1]


def test_a_message_is_made_as_asked() -> None:
    (message,) = asked(Slow(), 2)
    said = message.metadata
    assert (said.dst_node_id, said.message_type, said.group_id, said.ttl) == (2, "query", "3", 60.0)


def test_the_run_is_the_one_that_was_set() -> None:
    grid, other = Slow(), Slow()
    grid.set_run("a run")
    assert (grid.run, other.run) == ("a run", None)
