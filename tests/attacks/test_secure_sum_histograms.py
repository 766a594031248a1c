"""A server that asks for histograms of test records in sums: what it says to one member and not to another,
sums of steps and of histograms played against each other, and parts outside of any sum. Each is declined
before it is paid for, in either account.
"""

from dataclasses import replace

import pytest
from federation.secure_sum.sum_rounds import KEYS, OFFER, PLAN, Federation
from flwr.app import ConfigRecord, Message, RecordDict

from fl_dp.federation.secure_sum import grid, wire
from fl_dp.federation.wire.arrays import encode
from fl_dp.federation.wire.evaluation import evaluation_only
from fl_dp.federation.wire.messages import ARRAYS, REFUSAL, plan_to_content

TEST = {"test": 0.3, "evaluate-epsilon": 4.0, "delta": 1e-5}
SITES = [key.public for key in KEYS]
VICTIM = 2


def told(member, content, kind=wire.SECURE_SUM):
    kept = member.kept
    answered = member.asked(Message(RecordDict(dict(content)), 1, kind), SITES)
    member.kept = kept
    return answered[REFUSAL]["reason"]


def with_plan(asked, **changes):
    return {**asked, "evaluation": ConfigRecord({**asked["evaluation"], **changes})}


def at(stage, attack):
    """Play the attack on the victim at that stage; all end there."""

    def hook(number, found, asked):
        if number == VICTIM and found == stage:
            attack(RecordDict(dict(asked)))
        return None if found == stage else asked

    return hook


@pytest.fixture
def federation(tmp_path):
    return Federation(tmp_path, clients=3, dropouts=0, **TEST)


@pytest.fixture
def member(federation):
    """The victim, which has paid nothing when all is over."""
    yield federation.members[VICTIM]
    paid = federation.members[VICTIM].paid
    assert paid() == paid(by_test_records=True) == []


def test_another_plan_than_was_signed_is_not_paid_for(federation, member):
    reasons = []

    def attack(asked):
        for changes in (
            {"bins": 8}, {"noise_multiplier": 0.01}, {"shares": 1}, {"evaluations": 1}, {"sensitivity": 1e-3},
            {"numbers": 1}, {"by_subgroup": True}, {"server_round": 2}, {"run": "other"},
        ):  # fmt: skip
            reasons.append(told(member, with_plan(asked, **changes)))
        step = dict(plan_to_content(PLAN, asked[ARRAYS]))
        reasons.append(
            told(member, {name: one for name, one in asked.items() if name != "evaluation"} | step)
        )
        reasons.append(told(member, with_plan(asked, bins=8) | step))  # both at once

    federation.metrics(at(wire.MASK, attack))
    assert len(reasons) == 11
    assert all("plan is not the one" in one for one in reasons)


def test_other_weights_than_were_signed_are_not_paid_for(federation, member):
    reasons = []

    def attack(asked):
        arrays = {name: array.numpy().copy() for name, array in asked[ARRAYS].items()}
        next(iter(arrays.values())).flat[0] += 1.0
        reasons.append(told(member, {**asked, ARRAYS: encode(arrays)}))

    federation.metrics(at(wire.MASK, attack))
    assert "weights are not those" in reasons[0]


def test_a_grid_that_is_not_the_histograms_is_not_paid_for(federation, member, monkeypatch):
    """All have signed it: on another grid than each one's own the integers would add up to nothing."""
    real = grid.proposed_head

    def finer(*plans, **numbers):
        head = real(*plans, **numbers)
        return replace(head, spacing=head.spacing / 2)

    monkeypatch.setattr(grid, "proposed_head", finer)
    found, _ = federation.metrics()
    assert "by 'discrete gaussian 1' on a grid of" in found["sites"]["site-0"]["reason"]


def test_who_has_signed_a_sum_of_steps_counts_no_test_record_into_it(federation, member):
    """And no histogram with a share of the noise leaves outside of any sum."""
    seen, reasons = [], []
    federation.metrics(at(wire.ADVERTISE, seen.append))
    question = {"evaluation": seen[0]["evaluation"]}

    def attack(asked):
        mixed = {name: one for name, one in asked.items() if name != "plan"} | question
        reasons.append(told(member, mixed))
        reasons.append(told(member, {**asked, **question}))
        reasons.append(told(member, {**question, ARRAYS: asked[ARRAYS]}, "evaluate"))

    federation.round(at(wire.MASK, attack))
    first, second, third = reasons
    assert "plan is not the one" in first
    assert "plan is not the one" in second
    assert "outside of a secure sum" in third


def test_what_the_sum_costs_and_covers_is_checked_before_a_key_is_made(federation, member):
    """The head says the same as the plan, so that only the client's own numbers can tell."""
    reasons, own = [], member.config

    def attack(asked):
        head = dict(asked[wire.SAID])
        for changes, in_head in (
            ({"noise_multiplier": 0.5}, {"noise_multiplier": 0.5}),
            ({"sensitivity": 0.5}, {"max_grad_norm": 0.5}),
            ({"numbers": 88}, {"numbers": 88}),
            ({"noise_multiplier": 0.0009}, {"noise_multiplier": 0.0009}),
            ({}, {"plan": "ab" * 32}),
            ({}, {"server_round": 2}),
        ):
            content = with_plan(asked, **changes)
            plan = wire.common_plan(evaluation_only(RecordDict(content)))
            reasons.append(
                told(member, {**content, wire.SAID: ConfigRecord({**head, "plan": plan, **in_head})})
            )
        for settings in (
            {"allow_secure_sum": False}, {"min_share_multiplier": 9.0}, {"secure_least_clients": 4},
            {"approve": True}, {"test": 0.0}, {"epsilon_alone": 1.0},
        ):  # fmt: skip
            member.config = replace(own, **settings)
            reasons.append(told(member, asked))
        member.config = own

    federation.metrics(at(wire.ADVERTISE, attack))
    words = (
        "noise multiplier 0.5 in a secure sum, this client's test records have", "of sensitivity 0.5",
        "asks for 88 cells", "share of noise of multiplier", "with plan abab", "with round 2",
        "allow-secure-sum", "this client's least is 9", "ask for 4", "its operator approves runs",
        "declares no test records", "Not one more step fits",
    )  # fmt: skip
    for reason, expected in zip(reasons, words, strict=True):
        assert expected in reason


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"allow_secure_sum": False}, "allow-secure-sum"), ({"approve": True}, "its operator approves runs")],
)
def test_who_would_not_join_says_so_before_the_others_begin(federation, member, changes, words):
    member.config = replace(member.config, **changes)
    found, below = federation.metrics()
    assert words in found["sites"][f"site-{VICTIM}"]["reason"]
    assert {stage for _, stage, _ in below.seen} == {OFFER}


def test_one_site_does_not_drown_the_metrics_of_all_for_ever(tmp_path):
    """An account keeps the noise of its first evaluation. A member that asks for a thousand times what the
    others need is left out; a server that asks for it is declined, unpaid."""
    federation = Federation(tmp_path, clients=4, dropouts=0, **TEST)
    reasons = []

    def lie(number, stage, answered):
        if (number, stage) == (0, OFFER):
            answered["offer"]["noise_multiplier"] *= 1000
        return answered

    def attack(asked):
        head, noise = dict(asked[wire.SAID]), 1000 * asked["evaluation"]["noise_multiplier"]
        content = with_plan(asked, noise_multiplier=noise)
        plan = wire.common_plan(evaluation_only(RecordDict(content)))
        head |= {"plan": plan, "noise_multiplier": noise, "share_deviation": 1000 * head["share_deviation"]}
        said = ConfigRecord(head)
        reasons.append(told(federation.members[VICTIM], {**content, wire.SAID: said}))

    federation.metrics(at(wire.ADVERTISE, attack))
    assert "in a secure sum, this client's test records have" in reasons[0]
    found, _ = federation.metrics(lie=lie)
    assert "its test records have noise multiplier" in found["sites"]["site-0"]["reason"]
    assert found["secure_sum"] == {"clients": 3, "shares": 2, "masked": True}
    (paid,) = federation.members[VICTIM].paid(by_test_records=True)
    assert paid.entry.noise_multiplier < 10
