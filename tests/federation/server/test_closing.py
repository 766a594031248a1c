"""When a round is closed that not all who were asked have answered."""

from types import SimpleNamespace

import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from fl_dp.federation.server import closing
from fl_dp.federation.server.closing import LEAST, Closing
from fl_dp.federation.wire.messages import refusal_to_content
from fl_dp.records import Refusal


class Round:
    """Clients "0" to "4" by the messages of these names, on a clock of its own. new: never asked before."""

    def __init__(self, monkeypatch, *, needed=1, grace=2.0, steps=(10,) * 5, new=()):
        self.now, self.replies = 1000.0, []
        monkeypatch.setattr(closing, "time", SimpleNamespace(monotonic=lambda: self.now))
        asked = {
            str(i): SimpleNamespace(
                client=SimpleNamespace(name=f"site {i}"),
                mechanism=SimpleNamespace(steps=number),
            )
            for i, number in enumerate(steps)
        }
        new = {f"site {i}" for i in new}
        self.closing = Closing(
            asked, needed, grace, lambda reply, question: "update" in reply.content, new=new
        )

    def at(self, seconds, *names, content=None):
        """Whether it is closed so long after it was begun, when these have answered besides."""
        for name in names:
            reply = Message(content or RecordDict({"update": ConfigRecord({})}), 1, "train")
            reply.metadata.__dict__["_reply_to_message_id"] = name
            self.replies.append(reply)
        self.now = 1000.0 + seconds
        return self.closing.is_closed(self.replies)

    def closes(self):
        """The first second, from the quorum on, at which it is closed; 10,000: never."""
        return next((second for second in range(10_000) if self.at(second)), 10_000)


def test_the_others_have_grace_times_what_more_than_half_have_taken(monkeypatch):
    one = Round(monkeypatch)
    assert not one.at(10, "0", "1")  # two of five are no quorum, however long it takes
    assert not one.at(900)
    assert not one.at(1000, "2")
    assert not one.at(2999)
    assert one.at(3000)


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({}, 300),
        ({"grace": 0.5}, 150),
        ({"grace": 0.0}, 100 + LEAST),
        ({"steps": (10, 10, 10, 20, 35)}, 1050),  # 3.5 times the work
        ({"steps": (10, 10, 40, 20, 40)}, 300),
        ({"steps": (10, 10, 10, 20, 10**6)}, 3000),  # ten times: its size is its own word
        ({"needed": 4}, 10_000),
        ({"new": "4"}, 10_000),  # it may have to ask its operator
        ({"new": "0"}, 300),
    ],
)
def test_what_grace_depends_on(monkeypatch, settings, seconds):
    one = Round(monkeypatch, **settings)
    one.at(100, "0", "1", "2")
    assert one.closes() == seconds


def test_a_short_round_waits_ten_seconds(monkeypatch):
    one = Round(monkeypatch)
    assert not one.at(0.5, "0", "1", "2")
    assert not one.at(0.4 + LEAST)
    assert one.at(0.5 + LEAST)


@pytest.mark.parametrize(
    "content", [refusal_to_content(Refusal("declined", "no")), RecordDict({"junk": ConfigRecord({})})]
)
def test_what_is_no_update_is_no_pace(monkeypatch, content):
    """Else three that answer anything at once would cut off two that train, and pay."""
    one = Round(monkeypatch)
    assert not one.at(1, "0", "1", "2", content=content)
    assert not one.at(500, "3")
    assert one.closes() == 10_000
