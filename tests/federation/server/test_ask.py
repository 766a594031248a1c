"""What clients are asked for in a round; members of one sum for one thing, whoever comes later."""

import numpy as np
import pytest
from federation.server.short_run import START, adding_up, run, settings, strategy_of
from flwr.app import ConfigRecord

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.config.run import RunConfig
from fl_dp.federation.secure_sum.wire import common_plan
from fl_dp.federation.server.ask import RoundRequests
from fl_dp.federation.server.client_record import record_of
from fl_dp.federation.server.registration import Registration
from fl_dp.federation.wire.arrays import encode
from fl_dp.federation.wire.messages import plan_from_content
from fl_dp.federation.wire.partial_sums import ADD_UP
from fl_dp.records import ClientProfile, Entry


def test_clients_that_are_asked_for_the_same_share_one_content(fakes):
    nodes = [fakes.Client("0"), fakes.Client("1"), fakes.Client("2", public_size=1900)]
    grid = fakes.Grid(dict(enumerate(nodes, start=11)))
    strategy = strategy_of(settings(clients=3, fit_clients=3))
    messages = strategy.configure_train(1, encode(START), ConfigRecord(), grid)
    first, second, third = (
        message.content for message in sorted(messages, key=lambda m: m.metadata.dst_node_id)
    )
    assert first is second
    assert plan_from_content(first)[0].steps != plan_from_content(third)[0].steps


def test_a_run_ends_when_it_has_cost_a_client_the_runs_epsilon(fakes):
    """Whatever its data have spent before: that counts for its own budget, 30, alone."""
    before = (Entry(0.1, 2.0, 40),)
    client = fakes.Client("0", epsilon=30.0, spent=before)
    config = settings(clients=1, min_clients=1, fit_clients=1, rounds=9, epsilon=1.0)
    strategy, _ = run([client], fakes, config)
    (all_of_it,) = client.spent
    taken = all_of_it.steps - 40
    assert compute_epsilon([Entry(0.1, 2.0, taken)], 1e-5, "rdp") <= 1.0
    assert compute_epsilon([Entry(0.1, 2.0, taken + 1)], 1e-5, "rdp") > 1.0
    assert strategy.outcome() == (
        "budget-exhausted",
        "One more step would cost a client more than the run's epsilon.",
    )
    (budget,) = strategy.reporting.budgets().values()
    assert budget.this_run.planned_epsilon == budget.this_run.epsilon <= 1.0
    assert (budget.rounds_left, budget.status) == (0, "trained")


def added_up(fakes, nodes, config):
    """What those that are asked to train are told of a sum: its weight, or None."""
    grid = adding_up(fakes, *nodes)
    strategy_of(config).start(grid, encode(START))
    asked = [one.content for one in grid.sent if one.metadata.message_type == "train"]
    return [content[ADD_UP]["weight"] if ADD_UP in content else None for content in asked]


@pytest.mark.parametrize(("aggregation", "asked"), [("mean", True), ("median", False)])
def test_only_an_aggregation_that_can_use_sums_asks_for_them(fakes, aggregation, asked):
    config = settings(rounds=1, aggregation=aggregation)
    found = added_up(fakes, [fakes.Client("0"), fakes.Client("1")], config)
    assert [one is not None for one in found] == [asked, asked]


def test_weights_of_sums_are_capped_before_they_are_added_up(fakes):
    nodes = [fakes.Client("0"), fakes.Client("1"), fakes.Client("2", 6_400_000)]
    found = added_up(fakes, nodes, settings(clients=3, fit_clients=3, rounds=1))
    assert sorted(found) == pytest.approx([640.0, 640.0, 1280.0])


WEIGHTS = encode({"w": np.zeros(2, np.float32)})


def _client(config: RunConfig, name: str, size: int, rounds: int):
    profile = ClientProfile(name, size, 3.0, 1e-5, (), "pld", 0.0, False, allow_secure_sum=True)
    return record_of(profile, config, int(name), rounds)


def test_a_latecomer_with_fewer_records_changes_nothing_for_the_others():
    config = RunConfig(
        clients=4,
        min_clients=3,
        fit_clients=4,
        aggregation="secure",
        expected_batch_size=64,
        noise_multiplier=3.0,
    )
    registration = Registration(config)
    sizes = {"1": (640, 1), "2": (640, 1), "3": (640, 1), "4": (128, 0)}
    registration.clients = {name: _client(config, name, *one) for name, one in sizes.items()}
    asking = RoundRequests(config, "run", registration, ["w"])
    asked = asking.ask(list(registration.clients.values()), 2, WEIGHTS, in_sum=True)
    assert len({common_plan(one.plan) for one in asked}) == 1
