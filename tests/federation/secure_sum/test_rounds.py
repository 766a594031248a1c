"""Rounds of a small federation, from the strategy's messages to its one sum: who is in it, who has paid."""

import logging
import math
from dataclasses import replace

import numpy as np
import pytest
from federation.secure_sum.sum_rounds import KEYS, MODEL, PLAN, Federation, MemberOfSums, total_of
from flwr.app import ConfigRecord, Context, Message, RecordDict

from fl_dp.config.run import RunConfig
from fl_dp.federation.client import lost_rounds, own_training
from fl_dp.federation.client.answers import answer, train_round
from fl_dp.federation.client.lost_rounds import LostRounds
from fl_dp.federation.secure_sum import wire
from fl_dp.federation.secure_sum.grid import SecureGrid
from fl_dp.federation.secure_sum.vector import grid_of
from fl_dp.federation.security import SECURITY
from fl_dp.federation.wire.arrays import encode, state_arrays
from fl_dp.federation.wire.messages import REFUSAL, plan_to_content
from fl_dp.federation.wire.send_receive import BaseGrid
from fl_dp.kits.roster import Site

NUMBERS = sum(p.numel() for p in MODEL.parameters())
SITES = [key.public for key in KEYS]


def gone_at(stage, *numbers):
    """Members that end before they answer that stage."""
    return lambda number, at, asked: None if at == stage and number in numbers else asked


class GridThatForgets(BaseGrid):
    get_node_ids = push_messages = pull_messages = None
    forgotten: set[str]

    def site_of(self, node):
        return Site("north", "00") if node == 1 else None

    def give_up(self, message_ids):
        self.forgotten = set(message_ids)


def told(member, content):
    """Its answer to a stage's message."""
    return member.asked(Message(content, 1, wire.SECURE_SUM), SITES)


def test_of_a_round_the_strategy_gets_one_sum_with_all_shares_of_noise_and_each_member_pays_once(
    tmp_path, monkeypatch
):
    """Beside so much noise the gradients hardly count: five shares of sigma S / sqrt(3)."""
    monkeypatch.setattr(lost_rounds, "MOST_LOST", 1)
    federation, asked_twice = Federation(tmp_path), []

    def hook(number, stage, asked):
        if (number, stage) == (0, wire.MASK):
            asked_twice.append(RecordDict(dict(asked)))
        return asked

    plan = replace(PLAN, noise_multiplier=1000.0)
    replies, below = federation.round(hook, plan)
    total = total_of(replies)
    assert sorted(total) == sorted(name for name, _ in MODEL.named_parameters())
    assert all(array.dtype == np.int64 for array in total.values())
    grid = grid_of(1.0, 1000.0, 3, NUMBERS)
    values = np.concatenate([array.reshape(-1) for array in total.values()]) * grid.spacing
    assert np.sqrt(np.mean(values**2)) == pytest.approx(math.sqrt(5) * grid.share_deviation, rel=0.15)

    assert len(replies) == 5
    assert sorted(map(len, replies.values())) == [4, 4, 4, 4, 5]
    for content in replies.values():
        assert content.keys() - {"sum"} == {"report", "spent", "arrays", "group"}
        assert not content["arrays"]  # no single vector goes on
    assert sum(stage == wire.MASK for _, stage, _ in below.seen) == 5
    assert all(wire.KEPT not in answered for *_, answered in below.seen)

    assert REFUSAL in told(federation.members[0], asked_twice[0])  # no second vector, no second payment
    for member in federation.members:
        (paid,) = member.paid()
        assert (paid.entry.noise_multiplier, paid.entry.steps, paid.entry.shares) == (1000.0, 1, 3)
        assert paid.committed
    again, _ = federation.round(plan=replace(plan, server_round=2))
    assert total_of(again) is not None  # an opened sum does not count as a lost one


@pytest.mark.parametrize("stage", [wire.ADVERTISE, wire.SHARE])
def test_a_member_that_leaves_before_the_masks_has_not_paid_and_the_others_begin_again(tmp_path, stage):
    federation = Federation(tmp_path)
    replies, below = federation.round(gone_at(stage, 2))
    assert total_of(replies) is not None
    assert replies[2]["refusal"]["status"] == "declined"
    paid = [member.paid() for member in federation.members]
    assert [len(one) for one in paid] == [1, 1, 0, 1, 1]
    assert {one[0].entry.shares for one in paid if one} == {2}
    attempts = [answered for number, stage, answered in below.seen if number == 0 and stage == wire.ADVERTISE]
    keys = {bytes(one["said"]["mask_key"]) for one in attempts}
    assert len(keys) == len(attempts) == 2  # fresh in each


def test_a_member_that_leaves_later_is_a_drop_out_and_the_sum_is_opened(tmp_path):
    federation = Federation(tmp_path, epsilon=100.0)
    for number, stage in enumerate((wire.MASK, wire.OPEN), start=1):
        replies, _ = federation.round(gone_at(stage, 2), plan=replace(PLAN, server_round=number))
        assert total_of(replies) is not None
        assert isinstance(replies[2], str) == (stage == wire.MASK)  # later it has masked, and is in the sum
        reported = [one for one in replies.values() if isinstance(one, RecordDict) and "report" in one]
        assert len(reported) == 5 - (stage == wire.MASK)
        summed = next(one["group"]["messages"] for one in reported if "messages" in one["group"])
        assert len(summed) == len(reported)


def test_a_step_that_failed_here_is_not_counted_as_a_sum_that_a_server_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(lost_rounds, "MOST_LOST", 1)
    federation = Federation(tmp_path, epsilon=100.0)
    with monkeypatch.context() as broken:
        broken.setattr(own_training, "take_steps", lambda *given: 1 / 0)
        replies, _ = federation.round()
    assert [len(member.paid()) for member in federation.members] == [1] * 5
    assert all(one["refusal"]["status"] == "failed" for one in replies.values())
    replies, _ = federation.round(plan=replace(PLAN, server_round=2))
    assert total_of(replies) is not None


def test_where_too_many_are_gone_the_round_is_lost_and_says_why(tmp_path):
    federation = Federation(tmp_path, epsilon=100.0)
    for number, stage in enumerate((wire.MASK, wire.OPEN), start=1):
        plan = replace(PLAN, server_round=number)
        replies, _ = federation.round(gone_at(stage, 1, 2, 3), plan=plan)
        assert total_of(replies) is None
        lost = [one["group"].get("lost") for one in replies.values() if isinstance(one, RecordDict)]
        assert any("Secure sum lost" in one for one in lost if one)
        assert len(federation.members[0].paid()) == number


def test_whose_key_shares_open_no_key_is_suspected_and_named(tmp_path, caplog):
    def lie(number, stage, answered):
        if (number, stage) == (2, wire.OPEN):
            answered["said"]["shares"] = [bytes(31) + b"\1"] * 5
        return answered

    federation = Federation(tmp_path, dropouts=0)
    logging.getLogger(SECURITY).addHandler(caplog.handler)
    replies, _ = federation.round(lie=lie)
    logging.getLogger(SECURITY).removeHandler(caplog.handler)
    assert total_of(replies) is None
    events = [(one.event, one.who) for one in caplog.records if one.name == SECURITY]
    assert sorted(events) == [("suspected", f"site-{number}") for number in range(5)]


def test_too_few_from_the_start_pay_nothing(tmp_path):
    federation = Federation(tmp_path, clients=4)
    replies, _ = federation.round(gone_at(wire.ADVERTISE, 1, 2))
    assert all(one["refusal"]["status"] == "declined" for one in replies.values())
    assert [member.paid() for member in federation.members] == [[]] * 4


def test_a_member_refuses_to_mask_before_the_others_pay(tmp_path, monkeypatch):
    """Later it would be a drop-out, and here none is allowed for."""
    monkeypatch.setattr(lost_rounds, "MOST_LOST", 1)
    federation = Federation(tmp_path, clients=6, dropouts=0)
    lost, poor, asks = federation.members[:3]
    LostRounds.of(lost.config).paid()
    poor.config = replace(poor.config, epsilon=0.01)
    asks.config = replace(asks.config, approve=1e-9)
    replies, _ = federation.round()
    assert [replies[number]["refusal"]["status"] for number in range(3)] == ["declined"] * 3
    assert total_of(replies) is not None
    assert [len(member.paid()) for member in federation.members] == [0, 0, 0, 1, 1, 1]


def test_a_members_own_settings_decide_before_it_pays(tmp_path):
    asked = []
    Federation(tmp_path / "others").round(lambda number, stage, content: asked.append(content))
    content = asked[0]
    assert wire.SAID in told(MemberOfSums(0, 5, tmp_path / "one"), RecordDict(dict(content)))
    for settings, reason in (
        ({"allow-secure-sum": 0}, "allow-secure-sum"),
        ({"allow-secure-sum": 5}, "ask for 5"),
        ({"secure-most-dropouts": 0}, "settings allow 0"),
        ({"secure-least-colluders": 2}, "ask for 2"),
        ({"min-noise-multiplier": 4.0}, "least is 4"),
        ({"min-share-multiplier": 1.74}, "multiplier 1.73205, this client's least is 1.74"),
    ):
        member = MemberOfSums(0, 5, tmp_path / "one", **settings)
        assert reason in told(member, RecordDict(dict(content)))[REFUSAL]["reason"], settings
        assert member.paid() == []


def test_a_member_that_is_told_other_terms_than_it_signed_pays_nothing(tmp_path):
    federation = Federation(tmp_path)
    member, others = federation.members[3], []

    def hook(number, stage, asked):
        if (number, stage) != (3, wire.MASK):
            return asked
        kept = member.kept
        for plan in (
            {"max_grad_norm": 1e-9},
            {"noise_multiplier": 0.5},
            {"steps": 2},
            {"shares": 1},
            {"learning_rate": 7.0},
        ):
            content = RecordDict({**asked, "plan": ConfigRecord({**asked["plan"], **plan})})
            others.append(told(member, content)[REFUSAL]["reason"])
            member.kept = kept
        arrays = {name: array.numpy().copy() for name, array in asked["arrays"].items()}
        next(iter(arrays.values())).flat[0] += 1.0
        return RecordDict({**asked, "arrays": encode(arrays)})

    replies, below = federation.round(hook)
    assert len(others) == 5
    assert all("plan is not the one" in reason for reason in others)
    (said,) = (answered for number, stage, answered in below.seen if (number, stage) == (3, wire.MASK))
    assert "weights are not those" in said[REFUSAL]["reason"]
    assert member.paid() == []
    assert total_of(replies) is not None  # a drop-out


def test_the_grid_of_sums_names_the_site_of_a_node_and_passes_on_messages_given_up():
    """Otherwise a site that joins again and again is waited for at each of its nodes; its messages stay."""
    below = GridThatForgets()
    grid = SecureGrid(below, RunConfig())
    assert (grid.site_of(1).name, grid.site_of(2)) == ("north", None)
    grid.give_up(["a", "b"])
    assert below.forgotten == {"a", "b"}


def test_no_step_with_a_share_of_the_noise_leaves_outside_of_a_sum(tmp_path):
    """The server asks for the round itself, as of any other run."""
    member = MemberOfSums(0, 5, tmp_path)
    message = Message(plan_to_content(PLAN, encode(state_arrays(MODEL))), 1, "train")
    answered = answer(message, Context(1, 1, {}, RecordDict(), {}), train_round, lambda _: member.config)
    assert "outside of a secure sum" in answered.content[REFUSAL]["reason"]
    assert member.paid() == []
