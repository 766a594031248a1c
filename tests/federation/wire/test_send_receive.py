"""What is sent, and what is not. How long it is waited for: test_older_grid.py."""

from flwr.app import Message, RecordDict

from fl_dp.federation.wire.send_receive import receive, send


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


def test_nothing_to_send(fakes):
    assert send(fakes.Grid(), []) == {}
    assert receive(fakes.Grid(), {}, timeout=60) == []
