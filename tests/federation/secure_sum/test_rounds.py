"""Rounds of a small federation, from the strategy's messages to its one sum: who is in it, who has paid."""

import math
from dataclasses import replace

import numpy as np
import pytest
from federation.secure_sum.sum_rounds import MODEL, PLAN, Federation, total_of
from flwr.app import ConfigRecord, Context, Message, RecordDict

from fl_dp.federation.client.app import answer, train_round
from fl_dp.federation.client.lost_rounds import LostRounds
from fl_dp.federation.secure_sum import wire
from fl_dp.federation.secure_sum.vector import grid_of
from fl_dp.federation.wire.arrays import encode, state_arrays
from fl_dp.federation.wire.messages import REFUSAL, plan_to_content
from fl_dp.records import Entry

NUMBERS = sum(p.numel() for p in MODEL.parameters())


def gone_at(stage, *numbers):
    """Members that end before they answer that stage."""
    return lambda number, at, asked: None if at == stage and number in numbers else asked


def test_the_strategy_gets_one_sum_and_every_members_report(tmp_path):
    replies, below = Federation(tmp_path).round()
    total = total_of(replies)
    assert sorted(total) == sorted(name for name, _ in MODEL.named_parameters())
    assert all(array.dtype == np.int64 for array in total.values())
    assert len(replies) == 5
    assert all(
        content.keys() == {"report", "spent", "arrays", "group"} | {"sum"} & content.keys()
        for content in replies.values()
    )
    assert sum("sum" in content for content in replies.values()) == 1
    masked = [answered for _, stage, answered in below.seen if stage == wire.MASK]
    assert all(not content["arrays"] for content in replies.values())  # no single vector goes on
    assert len(masked) == 5


def test_the_sums_noise_is_that_of_all_shares(tmp_path):
    """Beside so much noise the gradients hardly count: five shares of sigma S / sqrt(3)."""
    replies, _ = Federation(tmp_path).round(plan=replace(PLAN, noise_multiplier=1000.0))
    grid = grid_of(1.0, 1000.0, 3, NUMBERS)
    values = np.concatenate([array.reshape(-1) for array in total_of(replies).values()]) * grid.spacing
    assert np.sqrt(np.mean(values**2)) == pytest.approx(math.sqrt(5) * grid.share_deviation, rel=0.15)


def test_each_member_pays_once_for_a_share_of_three(tmp_path):
    federation = Federation(tmp_path)
    federation.round()
    for member in federation.members:
        (paid,) = member.paid()
        assert (paid.entry.noise_multiplier, paid.entry.steps, paid.entry.shares) == (3.0, 1, 3)
        assert paid.committed
        assert isinstance(paid.entry, Entry)


@pytest.mark.parametrize("stage", [wire.ADVERTISE, wire.SHARE])
def test_who_is_gone_before_the_masks_has_not_paid_and_the_others_begin_again(tmp_path, stage):
    federation = Federation(tmp_path)
    replies, below = federation.round(gone_at(stage, 2))
    assert total_of(replies) is not None
    assert replies[2]["refusal"]["status"] == "declined"
    assert federation.members[2].paid() == []
    assert {len(member.paid()) for k, member in enumerate(federation.members) if k != 2} == {1}
    assert {one.paid()[0].entry.shares for k, one in enumerate(federation.members) if k != 2} == {2}
    attempts = [answered for number, stage, answered in below.seen if number == 0 and stage == wire.ADVERTISE]
    keys = {bytes(one["said"]["mask_key"]) for one in attempts}
    assert len(keys) == len(attempts) == 2  # fresh in each


@pytest.mark.parametrize("stage", [wire.MASK, wire.CONFIRM, wire.OPEN])
def test_who_is_gone_later_is_a_drop_out_and_the_others_sum_is_opened(tmp_path, stage):
    replies, _ = Federation(tmp_path).round(gone_at(stage, 2))
    assert total_of(replies) is not None
    assert isinstance(replies[2], str) == (stage == wire.MASK)  # it has masked, and is in the sum
    summed = replies[0]["group"] if "messages" in replies[0]["group"] else None
    assert sum(isinstance(one, RecordDict) and "report" in one for one in replies.values()) == 5 - (
        stage == wire.MASK
    )
    assert summed is None or len(summed["messages"]) == 5 - (stage == wire.MASK)


@pytest.mark.parametrize("stage", [wire.MASK, wire.CONFIRM, wire.OPEN])
def test_where_too_many_are_gone_the_round_is_lost_and_says_why(tmp_path, stage):
    federation = Federation(tmp_path)
    replies, _ = federation.round(gone_at(stage, 1, 2, 3))
    assert total_of(replies) is None
    lost = [
        one["group"]["lost"]
        for one in replies.values()
        if isinstance(one, RecordDict) and "lost" in one["group"]
    ]
    assert lost
    assert "Secure sum lost" in lost[0]
    assert len(federation.members[0].paid()) == 1


def test_too_few_from_the_start_pay_nothing(tmp_path):
    federation = Federation(tmp_path, clients=4)
    replies, _ = federation.round(gone_at(wire.ADVERTISE, 1, 2))
    assert all(one["refusal"]["status"] == "declined" for one in replies.values())
    assert [member.paid() for member in federation.members] == [[]] * 4


def test_a_member_stops_when_too_many_sums_were_never_opened(tmp_path):
    federation = Federation(tmp_path, **{"max-lost-rounds": 2, "epsilon": 100.0})
    for number in (1, 2, 3):
        plan = replace(PLAN, server_round=number, run=f"run-{number}")
        replies, _ = federation.round(gone_at(wire.OPEN, *range(5)), plan=plan)
    assert "never opened" in replies[0]["refusal"]["reason"]
    assert len(federation.members[0].paid()) == 2


@pytest.mark.parametrize("why", ["lost rounds", "budget", "approval"])
def test_who_will_not_mask_says_so_before_the_others_pay(tmp_path, why):
    """Later it would be a drop-out, and here none is allowed for."""
    federation = Federation(tmp_path, dropouts=0, **{"max-lost-rounds": 1})
    unwilling = federation.members[0]
    if why == "lost rounds":
        LostRounds.of(unwilling.config).paid()
    elif why == "budget":
        unwilling.config = replace(unwilling.config, epsilon=0.01)
    else:
        unwilling.config = replace(unwilling.config, approve=True, approval_wait=0.0)
    replies, _ = federation.round()
    assert replies[0]["refusal"]["status"] == "declined"
    assert total_of(replies) is not None
    assert [len(member.paid()) for member in federation.members] == [0, 1, 1, 1, 1]


def test_opened_sums_are_not_lost(tmp_path):
    federation = Federation(tmp_path, **{"max-lost-rounds": 1, "epsilon": 100.0})
    for number in (1, 2):
        plan = replace(PLAN, server_round=number)
        replies, _ = federation.round(plan=plan)
        assert total_of(replies) is not None


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"allow-secure-sum": False}, "allow-secure-sum"),
        ({"secure-least-clients": 5}, "ask for 5"),
        ({"secure-most-dropouts": 0}, "settings allow 0"),
        ({"secure-least-colluders": 2}, "ask for 2"),
        (
            {"clients-per-person": 2},
            "clients-per-person = 2: the server's clients-per-person and fit-clients",
        ),
        ({"min-noise-multiplier": 4.0}, "least is 4"),
        ({"min-share-multiplier": 1.74}, "multiplier 1.73205, this client's least is 1.74"),
    ],
)
def test_a_members_own_settings_decide(tmp_path, settings, reason):
    federation = Federation(tmp_path, **settings)
    replies, _ = federation.round()
    assert reason in replies[0]["refusal"]["reason"]
    assert federation.members[0].paid() == []


def _weights_changed(content):
    arrays = {name: array.numpy().copy() for name, array in content["arrays"].items()}
    next(iter(arrays.values())).flat[0] += 1.0
    content["arrays"] = encode(arrays)
    return content


def _plan_changed(content, **changes):
    content["plan"] = ConfigRecord({**content["plan"], **changes})
    return content


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_weights_changed, "weights are not those"),
        (lambda content: _plan_changed(content, max_grad_norm=1e-9), "plan is not the one"),
        (lambda content: _plan_changed(content, noise_multiplier=0.5), "plan is not the one"),
        (lambda content: _plan_changed(content, steps=2), "plan is not the one"),
        (lambda content: _plan_changed(content, shares=1), "plan is not the one"),
        (lambda content: _plan_changed(content, learning_rate=7.0), "plan is not the one"),
    ],
)
def test_who_is_told_something_else_than_was_signed_pays_nothing(tmp_path, change, reason):
    def hook(number, stage, asked):
        return change(asked) if stage == wire.MASK and number == 3 else asked

    federation = Federation(tmp_path)
    replies, below = federation.round(hook)
    said = [answered for number, stage, answered in below.seen if (number, stage) == (3, wire.MASK)]
    assert reason in said[0]["refusal"]["reason"]
    assert federation.members[3].paid() == []
    assert total_of(replies) is not None  # a drop-out


def test_no_step_with_a_share_of_the_noise_leaves_outside_of_a_sum(tmp_path):
    """The server asks for the round itself, as of any other run."""
    federation = Federation(tmp_path)
    member = federation.members[0]
    content = plan_to_content(PLAN, encode(state_arrays(MODEL)))
    answered = answer(
        Message(content, 1, "train"),
        Context(1, 1, {}, RecordDict(), {}),
        train_round,
        lambda c: member.config,
    )
    assert "outside of a secure sum" in answered.content[REFUSAL]["reason"]
    assert member.paid() == []


def test_what_a_member_keeps_between_stages_never_leaves(tmp_path):
    _, below = Federation(tmp_path).round()
    assert below.seen
    assert all(wire.KEPT not in answered for _, _, answered in below.seen)


def test_a_stage_is_answered_once(tmp_path):
    """The server sends the third stage's message again: no second vector, and no second payment."""
    again = []

    def hook(number, stage, asked):
        if number == 0 and stage == wire.MASK:
            again.append(asked)
        return asked

    federation = Federation(tmp_path)
    federation.round(hook)
    member = federation.members[0]
    answered = member.asked(
        Message(RecordDict(dict(again[0])), 1, wire.SECURE_SUM),
        [one.key.public for one in federation.members],
    )
    assert REFUSAL in answered
    assert len(member.paid()) == 1
