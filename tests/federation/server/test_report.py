"""What stands in the reports of rounds; budgets of unequal clients, and people with records at several."""

import dataclasses

import pytest
from federation.server import short_run
from federation.server.short_run import run, settings
from flwr.app import MetricRecord


def test_the_evaluation_of_a_round_stands_in_its_report_and_what_is_not_evaluated_has_no_loss(fakes):
    """In no round without data to evaluate on; otherwise in each."""
    asked = []

    def evaluate(server_round, arrays):
        asked.append(server_round)
        return MetricRecord({"loss": float(server_round), "accuracy": server_round / 10})

    clients = [fakes.Client("0"), fakes.Client("1")]
    assert run(clients, fakes, settings(rounds=1))[0].reports[0].loss is None
    strategy, _ = run(clients, fakes, settings(rounds=3), evaluate=evaluate)
    assert asked == [1, 2, 3]
    found = [(report.loss, report.accuracy) for report in strategy.reports]
    assert found == [(1.0, 0.1), (2.0, 0.2), (3.0, 0.3)]
    assert all(report.seconds > 0 for report in strategy.reports)


def test_a_number_of_the_client_stands_in_its_line(fakes):
    nodes = [fakes.Client("0"), fakes.Client("1", mishaps={1: fakes.Refusal("declined", "no")})]
    strategy, _ = run(nodes, fakes, settings(rounds=1))
    clients = strategy.reports[0].to_dict()["clients"]
    assert clients["0"]["reported"]["steps"] == 10
    assert clients["1"]["reported"] == {}


def run_unequal(clients, fakes, **changes):
    given = {"clients": 3, "min_clients": 1, "fit_clients": 3, "rounds": 6, "noise_multiplier": 1.5}
    return short_run.run(clients, fakes, settings(**{**given, **changes}))[0]


@pytest.fixture
def mixed(fakes):
    """Sizes, deltas and budgets differ; the small client spends fastest and runs out first."""
    return [
        fakes.Client("small", public_size=128, epsilon=3.0),
        fakes.Client("middle", public_size=640, epsilon=2.0, delta=1e-6),
        fakes.Client("large", public_size=6400, epsilon=2.0),
    ]


def test_small_clients_run_out_first_and_the_rest_go_on(fakes, mixed):
    strategy = run_unequal(mixed, fakes)
    small, middle, large = (
        [report.clients[name].status for report in strategy.reports].count("trained")
        for name in ("small", "middle", "large")
    )
    assert 1 <= small < middle <= large == 6
    for report in strategy.reports:
        for client in mixed:
            assert report.clients[client.name].epsilon <= client.epsilon
    assert [m.delta for m in strategy.reporting.budgets().values()] == [1e-5, 1e-6, 1e-5]  # by name
    assert strategy.outcome() == ("completed", "")


def test_every_client_keeps_its_own_rate_and_with_auto_its_own_noise(fakes, mixed):
    strategy = run_unequal(mixed, fakes, noise_multiplier="auto", rounds=3)
    plans = {client.name: client.plans for client in mixed}
    assert all(len({plan.noise_multiplier for plan in one}) == 1 for one in plans.values())
    assert len({one[0].noise_multiplier for one in plans.values()}) == 3
    assert strategy.reports[0].noise_multiplier == min(one[0].noise_multiplier for one in plans.values())
    assert {name: one.sample_rate for name, one in strategy.reports[0].clients.items()} == {
        "small": 0.5,
        "middle": 0.1,
        "large": 0.01,
    }
    assert all(report.federation.running_out == () for report in strategy.reports)
    for client in mixed:
        assert 0.95 * client.epsilon < strategy.reporting.budgets()[client.name].epsilon <= client.epsilon


def test_rounds_left_are_the_rounds_that_then_are_taken(fakes, mixed):
    strategy = run_unequal(mixed, fakes)
    for report in strategy.reports:
        later = strategy.reports[report.round :]
        for name, client in report.clients.items():
            took_part = sum(one.clients[name].status == "trained" for one in later)
            assert client.rounds_left == took_part
        short = {name for name, client in report.clients.items() if client.rounds_left < len(later)}
        assert set(report.federation.running_out) == short
        assert report.federation.rounds_ahead == len(later)
    assert strategy.reports[0].federation.running_out[-1] == "small"
    assert strategy.reporting.federation() == strategy.reports[-1].federation
    budgets = strategy.reporting.budgets()
    assert [budgets["small"].rounds_left, budgets["small"].rounds_beyond] == [0, 0]


def test_in_turns_nobody_runs_out_whose_budget_is_enough_for_the_turns_to_come(fakes):
    clients = [fakes.Client(name, public_size=640, epsilon=1.0) for name in "abcd"]
    config = settings(clients=4, fit_clients=2, rounds=4, noise_multiplier="auto", sampling="turns")
    reports = run(clients, fakes, config)[0].reports
    assert [report.federation.running_out for report in reports] == [()] * 4
    assert {client.rounds_left for client in reports[-1].clients.values()} == {0}


def test_the_summary_says_whose_ledger_was_retired(fakes, mixed):
    profile = mixed[0].profile
    mixed[0].profile = lambda: dataclasses.replace(profile(), retired=2)
    budgets = run_unequal(mixed, fakes, rounds=1).reporting.budgets()
    assert {name: one.retired for name, one in budgets.items()} == {"small": 2, "middle": 0, "large": 0}


def test_the_largest_of_the_clients_is_the_federations(fakes, mixed):
    report = run_unequal(mixed, fakes, rounds=1).reports[0]
    epsilons = sorted((client.epsilon for client in report.clients.values()), reverse=True)
    assert (report.epsilon, report.delta) == (epsilons[0], 1e-5)
    found = report.federation
    assert [found.largest, found.median, found.least] == epsilons
    assert found.accountants == ("rdp",)
    assert {client.accountant for client in report.clients.values()} == {"rdp"}


@pytest.mark.parametrize(
    ("asked", "before", "client"),
    [
        ("proven", "proven", "proven"),
        ("proven", "steady-rows", "steady-rows"),
        ("steady-rows", "proven", "steady-rows"),
    ],
)
def test_a_clients_total_is_as_sure_as_the_weakest_of_it_and_the_federations_epsilon_as_this_run(
    fakes, asked, before, client
):
    clients = [fakes.Client("a", arithmetic=before), fakes.Client("b", arithmetic="proven")]
    strategy = run_unequal(clients, fakes, rounds=1, arithmetic=asked)
    (report,) = strategy.reports
    assert [one.arithmetic for one in clients[0].plans] == [asked]
    assert report.clients["a"].arithmetic == client
    assert report.clients["b"].arithmetic == asked
    assert report.federation.arithmetic == asked
