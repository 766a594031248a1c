"""What is sent, and what is not. How long it is waited for: test_older_grid.py."""

from types import SimpleNamespace

from flwr.app import Message, RecordDict

from fl_dp.config.run import RunConfig
from fl_dp.federation.wire.send_receive import receive, send
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
