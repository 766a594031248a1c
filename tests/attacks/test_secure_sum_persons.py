"""A person with records at several members of a sum: a server that says they are at fewer, or drawn less."""

from dataclasses import replace

import pytest
from federation.secure_sum.sum_rounds import PLAN, Federation, total_of
from flwr.app import ConfigRecord

from fl_dp.federation.secure_sum import wire

TWICE = {"clients-per-person": 2, "epsilon": 20.0, "accountant": "pld"}
RATE = 64 / 288  # of a client with the fewest records
PERSONS = replace(PLAN, copies=2, most_rate=RATE)


def told(member, stages, **changes):
    """One member is told of another plan at these stages."""

    def hook(number, stage, asked):
        if number == member and stage in stages and "plan" in asked:
            asked["plan"] = ConfigRecord({**asked["plan"], **changes})
        return asked

    return hook


def test_a_sum_is_paid_for_as_one_that_a_person_moves_twice(tmp_path):
    federation = Federation(tmp_path, **TWICE)
    replies, _ = federation.round(plan=PERSONS)
    assert total_of(replies) is not None
    for member in federation.members:
        (paid,) = member.paid()
        assert (paid.entry.copies, paid.entry.sample_rate) == (2, RATE)


def test_a_server_that_takes_it_for_once_is_declined(tmp_path):
    federation = Federation(tmp_path, **TWICE)
    replies, _ = federation.round()
    assert "clients-per-person = 2" in replies[0]["refusal"]["reason"]
    assert all(member.paid() == [] for member in federation.members)


@pytest.mark.parametrize("rate", [RATE / 2, 0.0])
def test_a_largest_rate_that_is_not_the_largest_is_declined(tmp_path, rate):
    federation = Federation(tmp_path, **TWICE)
    replies, _ = federation.round(plan=replace(PERSONS, most_rate=rate))
    assert "sample rate" in replies[0]["refusal"]["reason"]
    assert all(member.paid() == [] for member in federation.members)


def test_one_member_that_draws_more_than_was_signed_is_declined(tmp_path):
    """Asked after the terms were signed: its persons would be drawn more often than others account for."""

    federation = Federation(tmp_path, **TWICE)
    _, below = federation.round(told(1, [wire.MASK], expected_batch_size=200), plan=PERSONS)
    (answered,) = [one for number, stage, one in below.seen if (number, stage) == (1, wire.MASK)]
    assert "sample rate" in answered["refusal"]["reason"]
    assert federation.members[1].paid() == []


def test_members_who_are_told_of_different_persons_never_mask(tmp_path):
    """What decides the cost is in the digest that all sign: nobody is told of less than the others."""

    federation = Federation(tmp_path, **TWICE)
    federation.round(told(0, wire.STAGES, copies=3), plan=PERSONS)
    assert federation.members[0].paid() == []
