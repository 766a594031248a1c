"""Runs of secure sums that were killed and go on: under one name exactly, under a new one paid anew."""

from dataclasses import replace

import numpy as np
import pytest
from federation.server.short_run import START, settings
from federation.server.test_resuming import Killed, lines_and_weights, resumable
from flwr.app import Message
from local_updates import local_update

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.events import merge
from fl_dp.federation.server.strategy import PrivateStrategy
from fl_dp.federation.wire.arrays import encode, specs
from fl_dp.federation.wire.messages import REFUSAL, plan_from_content, update_to_content
from fl_dp.federation.wire.partial_sums import make_group
from fl_dp.records import Entry

TRAINABLE = specs({"weight": START["weight"]})


def secure(**changes):
    given = {
        "clients": 5,
        "min_clients": 5,
        "fit_clients": 5,
        "aggregation": "secure:1",
        "min_updates": "auto",
        "noise_multiplier": 40.0,
        "server_optimizer": "fedavgm",
    }
    return settings(**{**given, **changes})


class Member:
    """A simulated client of sums: a round has one payment and one share, however often it is asked for."""

    def __init__(self, fakes, name, kill):
        self.client = fakes.Client(name, epsilon=50.0)
        self.kill, self.paid, self.shares = kill, set(), {}

    def __call__(self, message):
        if message.metadata.message_type == "query":
            return self.client(message)
        plan, _ = plan_from_content(message.content)
        assert plan.secure
        assert plan.steps == 1
        client, number = self.client, (plan.run, plan.server_round)
        entry = Entry(plan.expected_batch_size / client.public_size, plan.noise_multiplier, 1, plan.shares)
        if number not in self.paid:
            client.spent = merge((*client.spent, entry))
        self.paid.add(number)
        seed = int.from_bytes(f"{client.name} {plan}".encode(), "big")
        self.shares[message.metadata.message_id] = np.random.default_rng(seed).integers(
            -(2**20), 2**20, (2, 3)
        )
        epsilon = compute_epsilon(client.spent, client.delta, "rdp")
        content = update_to_content(local_update({}, client.spent, 1, epsilon, client.delta))
        self.kill("asked", plan.server_round)
        return Message(content, reply_to=message)


def summing(fakes, members):
    """A grid that adds up what its members give, as a simulation's does."""

    class Grid(fakes.Grid):
        adds_up = True

        def push_messages(self, messages):
            sent = list(messages)
            ids = list(super().push_messages(sent))
            contents = {
                key: self._replies[key].content
                for key, one in zip(ids, sent, strict=True)
                if one.metadata.message_type == "train" and REFUSAL not in self._replies[key].content
            }
            if contents:
                shares = zip(ids, sent, strict=True)
                total = sum(self.nodes[one.metadata.dst_node_id].shares[key] for key, one in shares)
                plan = plan_from_content(sent[0].content)[0]
                make_group(contents, list(contents), {"weight": total}, shares=plan.shares)
            return ids

    return Grid(members)


@pytest.mark.parametrize("moment", ["known", "asked", "over"])
def test_a_simulation_killed_at_any_moment_and_resumed_is_the_one_that_was_not(fakes, moment):
    config, all_members = secure(rounds=6), []

    def make_grid(kill):
        members = {10 + i: Member(fakes, str(i), kill) for i in range(5)}
        all_members.append(members.values())
        return lambda: summing(fakes, members)

    deaths = {(moment, r) for r in ((0,) if moment == "known" else (1, 3, 6))}
    straight, broken = (lines_and_weights(fakes, config, make_grid, one) for one in (set(), deaths))
    assert len(straight[0]) == 6
    assert all(one.secure_sum.shares == 3 and not one.lost for one in straight[0].values())
    assert np.abs(straight[1]).max() > 0
    assert broken[0] == straight[0]
    np.testing.assert_array_equal(broken[1], straight[1])
    assert broken[2] == straight[2]
    spent, again = ([one.client.spent for one in members] for members in all_members)
    assert spent == again


def test_a_first_round_that_nobody_knows_of_counts_with_the_noise_that_its_sum_had(fakes):
    """The members need different noise, and a sum has one. The state on the disk had no round yet."""
    config, states, asked = secure(rounds=2, noise_multiplier="auto"), [], []

    def kill(moment, server_round):
        asked.append(moment)
        if asked.count("asked") == 5:
            raise Killed

    members = {10 + i: Member(fakes, str(i), kill) for i in range(5)}
    for member, size in zip(members.values(), (640, 320, 500, 500, 640), strict=True):
        member.client.public_size = size
    with pytest.raises(Killed):
        resumable(fakes, config, states).start(summing(fakes, members), encode(START))
    second = PrivateStrategy(config, "run-2", TRAINABLE, lambda report: None)
    second.resume(states[-1])
    for member in members.values():
        member.kill = lambda *at: None
    second.start(summing(fakes, members), encode(START))
    for name, one in second.reporting.budgets().items():
        (spent,) = {member.client.spent for member in members.values() if member.client.name == name}
        of_run = one.this_run or one
        assert sum(entry.steps for entry in of_run.charges) == sum(entry.steps for entry in spent)
        assert of_run.epsilon == compute_epsilon(spent, 1e-5, "rdp")


def test_under_a_new_name_a_round_of_a_deployment_is_another_and_paid_anew(fakes):
    """The server was killed within round 2, which its members have paid for: it counts."""
    config, states, asked = secure(rounds=3), [], []

    def kill(moment, server_round):
        asked.append(server_round)
        if asked.count(2) == 5:
            raise Killed

    members = {10 + i: Member(fakes, str(i), kill) for i in range(5)}
    first = resumable(fakes, config, states)
    with pytest.raises(Killed):
        first.start(summing(fakes, members), encode(START))
    state = states[-1]
    assert state.rounds == 1
    second = PrivateStrategy(config, "run-2", TRAINABLE, lambda report: None)
    second.resume(state)
    mechanism = state.clients[0].mechanism
    assert mechanism.shares == 3
    assert {one.steps for one in second.reporting.budgets().values()} == {2}
    for one in members.values():
        one.kill = lambda *at: None
    second.start(summing(fakes, members), encode(state.arrays))
    assert [report.round for report in second.reports] == [1, 2, 3]
    for member in members.values():
        assert member.client.spent == (replace(mechanism, steps=4),)  # 1, 2 under the old name, 2 and 3
        assert {run for run, _ in member.paid} == {"run-1", "run-2"}
    budgets = second.reporting.budgets()
    assert {one.steps for one in budgets.values()} == {4}
    assert all(one.epsilon_alone > one.epsilon for one in budgets.values())
    assert second.reports[-1].line
