"""One member that says nothing, or that has a key which is none, does not end a round for all."""

import time
from dataclasses import replace

import pytest
from federation.secure_sum.attempts import LIMITS, Played, head
from federation.secure_sum.sum_rounds import SILENT, Federation, Wire, total_of

from fl_dp.federation.secure_sum import attempt, wire
from fl_dp.federation.secure_sum.participant import Participant
from fl_dp.federation.secure_sum.terms import KEYS_PURPOSE, keys_body


class Clock:
    """Time that passes in sleep alone."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock.monotonic)
    monkeypatch.setattr(time, "sleep", clock.sleep)
    return clock


@pytest.mark.parametrize("stage", [wire.ADVERTISE, wire.MASK])
def test_who_says_nothing_is_given_up_before_the_strategy_gives_up_the_round(tmp_path, clock, stage):
    """The strategy waits round-timeout: later, the others' steps were paid for and lost."""
    federation = Federation(tmp_path)
    replies, _ = federation.round(lambda number, at, asked: SILENT if (number, at) == (2, stage) else asked)
    assert total_of(replies) is not None
    assert clock.now - 1000.0 < federation.config.round_timeout
    assert len(replies) == 5
    assert federation.members[2].paid() == []


def test_who_says_nothing_at_the_stage_of_the_keys_alone_is_not_waited_for_as_long_as_one_who_trains(
    tmp_path, clock, monkeypatch
):
    monkeypatch.setattr(attempt, "KEY_SECONDS", 1.0)
    silent = (2, wire.SHARE)
    replies, _ = Federation(tmp_path).round(
        lambda number, at, asked: SILENT if (number, at) == silent else asked
    )
    assert total_of(replies) is not None
    assert 1001.0 <= clock.now < 1005.0


@pytest.mark.parametrize("stage", [wire.CONFIRM, wire.OPEN])
def test_who_is_slow_after_the_masks_is_waited_for_as_long_as_the_round_lasts(
    tmp_path, clock, monkeypatch, stage
):
    """Everybody has paid, and without it the sum is lost."""
    monkeypatch.setattr(attempt, "KEY_SECONDS", 1.0)
    pull, held = Wire.pull_messages, {}

    def late(below, message_ids):
        for reply in pull(below, message_ids):
            said = reply.content.get(wire.STAGE) or {}
            slow = reply.metadata.src_node_id == 3 and said.get("stage") == stage
            held[reply.metadata.reply_to_message_id] = reply, clock.now + 5 * slow
        due = [key for key, (_, at) in held.items() if at <= clock.now]
        return [held.pop(key)[0] for key in due]

    monkeypatch.setattr(Wire, "pull_messages", late)
    replies, _ = Federation(tmp_path, dropouts=0).round()
    assert total_of(replies) is not None
    assert 1005.0 <= clock.now < 1010.0


@pytest.mark.parametrize("stage", [wire.CONFIRM, wire.OPEN])
def test_a_sum_that_is_never_opened_is_given_up_before_the_strategy_gives_up_the_round(
    tmp_path, clock, stage
):
    """Later, nobody would know that the members' steps were paid for."""
    federation = Federation(tmp_path, dropouts=0)
    replies, _ = federation.round(lambda number, at, asked: SILENT if (number, at) == (2, stage) else asked)
    assert total_of(replies) is None
    assert clock.now - 1000.0 < federation.config.round_timeout
    assert len(replies) == 5
    assert all("report" in replies[number] for number in range(5))


def test_who_is_slow_to_confirm_still_reads_its_question_and_learns_that_the_sum_was_opened(
    tmp_path, monkeypatch
):
    """Else it counts the sum as one that the server has lost."""
    given_up, opening = [], []
    monkeypatch.setattr(
        Wire, "give_up", lambda below, message_ids: given_up.extend(message_ids), raising=False
    )

    def hook(number, stage, asked):
        opening.extend([number] if stage == wire.OPEN else [])
        return SILENT if (number, stage) == (2, wire.CONFIRM) else asked

    replies, _ = Federation(tmp_path).round(hook)
    assert total_of(replies) is not None
    assert sorted(opening) == [0, 1, 2, 3, 4]
    assert given_up == []


def test_no_attempt_begins_when_the_rounds_time_is_over(tmp_path, clock):
    """Its members would pay, and have no time to answer."""

    def hook(number, stage, asked):
        if (number, stage) != (2, wire.ADVERTISE):
            return asked
        clock.now += 100.0
        return None

    federation = Federation(tmp_path)
    replies, _ = federation.round(hook)
    assert {one["refusal"]["status"] for one in replies.values()} == {"declined"}
    assert "nothing paid: round-timeout is over" in replies[0]["refusal"]["reason"]
    assert [member.paid() for member in federation.members] == [[]] * 5


@pytest.mark.parametrize("which", ["mask_key", "share_key", "seed_key"])
def test_a_key_that_agrees_with_nobody_is_its_owners_drop_out(which):
    """Else all others decline the terms, and it is they who are left out of the next attempt."""
    played = Played(head(5))
    for place, key in enumerate(played.keys):
        _, answer = Participant.begin(played.head, LIMITS, key)
        if place == 1:
            answer = replace(answer, **{which: bytes(33)})
            body = keys_body(played.head, answer.mask_key, answer.share_key, answer.seed_key)
            answer = replace(answer, signature=key.sign(KEYS_PURPOSE, body))
        played.server.take_advertisement(key.public, answer.to_fields())
    assert list(played.server.dropped) == [played.names[1]]
