"""PrivateStrategy over a grid in memory: averaging, failures, budgets, early end."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from federation.conftest import FakeClient
from federation.server.short_run import START, TRAINABLE, run, settings, statuses, strategy_of, weights
from flwr.app import MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAdam

from fl_dp.errors import ConfigError, FlDpError
from fl_dp.federation.server import strategy as strategy_module
from fl_dp.federation.server import verify
from fl_dp.federation.server.registration import SILENT
from fl_dp.federation.server.state import read_state, write_state
from fl_dp.federation.server.strategy import PrivateStrategy, usual_parts
from fl_dp.federation.server.verify import NO_REPLY, Quorum
from fl_dp.federation.wire.arrays import encode
from fl_dp.federation.wire.partial_sums import ADD_UP
from fl_dp.records import Entry, Refusal
from fl_dp.tasks.own_code import own_parts

MOST_LEFT = Path(__file__).parents[3] / "examples" / "strategies" / "most_budget_left.py"


def test_honest_clients_train_every_round_and_the_untrained_entries_stay(fakes):
    strategy, grid = run([fakes.Client("0"), fakes.Client("1")], fakes)
    assert strategy.outcome() == ("completed", "")
    assert len(grid.trained()) == 6
    np.testing.assert_array_equal(weights(strategy)["weight"], np.full((2, 3), 3, np.float32))
    np.testing.assert_array_equal(weights(strategy)["frozen"], START["frozen"])
    assert [r.clients["0"].steps for r in strategy.reports] == [10, 20, 30]
    assert strategy.reports[0].clients["0"].sample_rate == 0.1


@pytest.mark.parametrize(("kind", "expected"), [("declared", 5 / 3), ("uniform", 1.5)])
def test_updates_are_weighted_by_capped_public_sizes_or_equally(fakes, kind, expected):
    def twice(update):
        return replace(update, arrays={"weight": update.arrays["weight"] * 2})

    nodes = [fakes.Client("0", public_size=640), fakes.Client("1", public_size=1920, lie=twice)]
    strategy, _ = run(nodes, fakes, settings(rounds=1, weights=kind))
    np.testing.assert_allclose(weights(strategy)["weight"], expected)


def test_a_decline_a_failure_and_silence_do_not_stop_the_round(fakes):
    nodes = [
        fakes.Client("0"),
        fakes.Client("1", mishaps={1: fakes.Refusal("declined", "too little noise")}),
        fakes.Client("2", mishaps={1: fakes.Refusal("failed", "ModelError")}),
        fakes.Client("3", mishaps={1: None}),
    ]
    strategy, _ = run(nodes, fakes, settings(clients=4, fit_clients=4, rounds=2))
    assert statuses(strategy, 1) == {"0": "trained", "1": "declined", "2": "failed", "3": "failed"}
    clients = strategy.reports[0].clients
    assert clients["1"].reason == "too little noise"
    assert clients["3"].reason == NO_REPLY
    assert set(statuses(strategy, 2).values()) == {"trained"}


def test_the_run_ends_early_when_no_budget_is_left_and_no_epsilon_passes_it(fakes):
    nodes = [fakes.Client("0", epsilon=1.5), fakes.Client("1", epsilon=1.5)]
    strategy, _ = run(nodes, fakes, settings(rounds=40))
    status, reason = strategy.outcome()
    assert status == "budget-exhausted"
    assert reason == "No client has budget for one more step."
    assert 1 <= len(strategy.reports) < 40
    assert all(report.epsilon <= 1.5 for report in strategy.reports)
    assert strategy.reports[-1].epsilon > 1.45


def test_budgets_spent_before_the_run_end_it_at_once(fakes):
    spent = (Entry(0.1, 0.5, 10_000),)
    strategy, grid = run([fakes.Client("0", spent=spent), fakes.Client("1", spent=spent)], fakes)
    assert strategy.outcome()[0] == "budget-exhausted"
    assert not grid.trained()
    assert strategy.reporting.budgets()["0"].steps == 10_000


def test_another_federation_replaces_one_part(fakes):
    """Here the choice, by the example's file: the client with the most budget left trains."""
    own = own_parts(f"{MOST_LEFT}:most_budget_left")
    config = settings(rounds=4, fit_clients=1)
    strategy = PrivateStrategy(config, "run-1", TRAINABLE, lambda r: None, make_parts=own)
    strategy.start(fakes.Grid({11: fakes.Client("0"), 12: fakes.Client("1")}), encode(START))
    trained = [[n for n, c in r.clients.items() if c.status == "trained"] for r in strategy.reports]
    assert trained == [["0"], ["1"], ["0"], ["1"]]


@pytest.mark.parametrize(
    ("whole", "words"),
    [
        (True, "it made a FedAdam; expected .* values of server-optimizer"),
        (False, "its aggregating is of class FedAdam, not Aggregator; expected FILE"),
    ],
)
def test_a_strategy_of_flowers_is_refused_as_a_part(whole, words):
    def make(*given):
        parts = usual_parts(*given)
        parts.aggregating = FedAdam()
        return FedAdam() if whole else parts

    with pytest.raises(ConfigError, match=words):
        PrivateStrategy(settings(strategy="a.py:make"), "run-1", TRAINABLE, lambda r: None, make_parts=make)


@pytest.mark.parametrize("timeout", [0.0, 0.1, float("nan")])
def test_a_timeout_that_would_lose_what_clients_pay_for_is_refused(fakes, timeout):
    strategy = strategy_of()
    with pytest.raises(ConfigError, match=r"shorter than round-timeout = 0\.3"):
        strategy.start(fakes.Grid({}), encode(START), timeout=timeout)
    assert strategy.reports == []


class Flowers(Grid):
    """A grid that is not fl_dp's. It says that it adds up, as one of fl_dp's may."""

    adds_up, run = True, None
    set_run = create_message = send_and_receive = None
    get_node_ids = push_messages = pull_messages = None

    def __init__(self, grid):
        self.get_node_ids = grid.get_node_ids
        self.push_messages, self.pull_messages = grid.push_messages, grid.pull_messages


def test_a_grid_of_flowers_serves_but_opens_no_sum(fakes):
    grid, strategy = fakes.Grid({11: fakes.Client("0"), 12: fakes.Client("1")}), strategy_of()
    strategy.start(Flowers(grid), encode(START))
    assert strategy.outcome() == ("completed", "")
    assert len(grid.trained()) == 6
    assert not any(ADD_UP in one.content for one in grid.sent)


class Silent(FakeClient):
    """Answers no round. Registers until round `deaf`, and again from round `back` on, when it joins anew."""

    deaf = back = 99

    def __call__(self, message):
        now = self.now()
        if message.metadata.message_type == "train":
            self.asked.append(now)
            return None
        return super().__call__(message) if now < self.deaf or now >= self.back else None


@pytest.mark.parametrize(
    ("deaf", "back", "asked", "why"),
    [
        (99, 99, [1, 2], SILENT),
        (2, 99, [1], "has not yet shown what its last round cost"),
        (2, 5, [1, 5], "has not yet shown what its last round cost"),
    ],
)
def test_a_silent_site_costs_others_no_more_than_grace_and_is_asked_twice(
    fakes, monkeypatch, deaf, back, asked, why
):
    """Rounds wait for no silent site, neither for its update nor for its account."""
    monkeypatch.setattr(verify, "LEAST_PATIENCE", 0.2)
    silent = Silent("4")
    silent.deaf, silent.back, silent.asked = deaf, back, []

    class Grid(fakes.Grid):
        def get_node_ids(self):
            if silent.now() == back and 15 in self.nodes:
                self.nodes[16] = self.nodes.pop(15)
            return super().get_node_ids()

    grid = Grid({11 + i: fakes.Client(str(i)) for i in range(4)} | {15: silent})
    config = settings(clients=5, min_clients=3, fit_clients=5, rounds=8, round_timeout=1.5)
    strategy = strategy_of(config)
    silent.now = lambda: len(strategy.reports) + 1
    strategy.start(grid, encode(START))
    assert silent.asked == asked
    assert strategy.reports[0].seconds >= 1.5  # it was new: nobody knew its pace, or whom it has to ask
    assert all(report.seconds < 1.0 for report in strategy.reports[1:])
    assert all(report.clients["0"].status == "trained" for report in strategy.reports)
    reasons = [report.clients["4"].reason for report in strategy.reports]
    assert [number for number, reason in enumerate(reasons, 1) if reason == NO_REPLY] == asked
    assert reasons[2] == why
    spent = [report.clients["4"].steps for report in strategy.reports]
    assert spent[asked[-1] - 1] == 10  # the last miss counts as spent, until it has registered


def test_a_site_that_declines_every_round_is_new_in_the_first_alone(fakes, monkeypatch):
    """Otherwise each round waits all of round-timeout for an answer that costs the site nothing."""
    seen = []

    class Seen(Quorum):
        def __init__(self, *arguments, new):
            seen.append(set(new))
            super().__init__(*arguments, new=new)

    monkeypatch.setattr(strategy_module, "Quorum", Seen)
    nodes = [fakes.Client("0"), fakes.Client("1", mishaps=dict.fromkeys((1, 2), Refusal("declined", "no")))]
    run(nodes, fakes, settings(rounds=2))
    assert [len(new) for new in seen] == [2, 0]


def test_a_resumed_run_asks_again_who_was_silent(fakes, tmp_path, monkeypatch):
    monkeypatch.setattr(verify, "LEAST_PATIENCE", 0.05)
    nodes = [fakes.Client(str(i), mishaps={1: None, 2: None} if i == 3 else {}) for i in range(4)]
    config = settings(clients=4, fit_clients=4, rounds=3)
    first, grid = run(nodes, fakes, config)
    write_state(tmp_path / "state", first.state(0.0))
    second = strategy_of(replace(config, rounds=5))
    second.resume(read_state(tmp_path / "state"))
    second.start(grid, second.result.arrays)
    assert [plan.server_round for plan in nodes[3].plans] == [1, 2, 4, 5]


def test_no_timeout_is_longer_than_that_of_the_config(fakes):
    silent = fakes.Client("1", mishaps={1: None})
    strategy = strategy_of(settings(rounds=1))
    began = time.monotonic()
    strategy.start(fakes.Grid({11: fakes.Client("0"), 12: silent}), encode(START), timeout=600.0)
    assert time.monotonic() - began < 300
    assert strategy.reports[0].clients["1"].reason == NO_REPLY


def test_a_round_with_too_few_updates_is_lost_and_reported_as_paid(fakes, caplog):
    nodes = [fakes.Client("0"), fakes.Client("1", mishaps={1: None}), fakes.Client("2", mishaps={1: None})]
    config = settings(clients=3, min_clients=3, fit_clients=3, rounds=2, min_updates="auto")
    strategy, _ = run(nodes, fakes, config)
    first, second = strategy.reports
    assert (first.lost, first.lost_rounds) == ("1 valid update, 3 needed (min-updates, aggregation)", 1)
    assert (second.lost, second.lost_rounds) == ("", 1)
    assert first.clients["0"].epsilon > 0
    assert "round 1 is lost but paid for" in caplog.text
    np.testing.assert_array_equal(weights(strategy)["weight"], np.ones((2, 3), np.float32))
    assert strategy.outcome() == ("completed", "")


def test_a_resumed_run_that_has_changed_the_model_before_is_completed(fakes):
    nodes = [fakes.Client("0"), fakes.Client("1", mishaps={2: None})]
    strategy, _ = run(nodes, fakes, settings(rounds=2, min_updates="auto"))
    assert [bool(report.lost) for report in strategy.reports] == [False, True]
    del strategy.reporting.reports[:-1]  # as `restore` leaves them
    assert strategy.outcome() == ("completed", "")


@pytest.mark.parametrize("then", [{}, {2: None}], ids=["lost", "without updates"])
def test_a_run_that_never_changed_the_model_has_failed(fakes, then):
    nodes = [fakes.Client("0", mishaps=then), fakes.Client("1", mishaps={1: None, 2: None})]
    strategy, _ = run(nodes, fakes, settings(rounds=2, min_updates="auto"))
    status, reason = strategy.outcome()
    assert status == "failed"
    assert "No round has changed the model. The last lost round: 1 valid update, 2 needed" in reason


def test_a_round_that_cannot_have_as_many_updates_as_are_named_is_not_paid_for(fakes):
    poor = fakes.Client("0", epsilon=0.8)
    strategy, _ = run([poor, fakes.Client("1")], fakes, settings(min_updates=2))
    assert strategy.outcome()[0] == "budget-exhausted"
    assert "Fewer connected clients than min-updates asks for" in strategy.outcome()[1]
    assert len(strategy.reports) == 1
    assert strategy.reporting.budgets()["1"].steps == 10


def test_a_round_with_fewer_updates_than_krum_needs_is_lost(fakes):
    nodes = [fakes.Client(str(i), mishaps={1: None} if i == 0 else {}) for i in range(5)]
    config = settings(
        clients=5, fit_clients=5, rounds=2, aggregation="krum", min_updates=1, learning_rate=50.0
    )
    strategy, _ = run(nodes, fakes, config)
    assert strategy.reports[0].lost == "4 valid updates, 5 needed (min-updates, aggregation)"
    assert strategy.reports[1].lost == ""
    np.testing.assert_array_equal(weights(strategy)["weight"], np.ones((2, 3), np.float32))


@pytest.mark.parametrize("how", [KeyboardInterrupt, FlDpError])
def test_a_run_that_ends_within_a_round_counts_this_round(fakes, how):
    """Its clients may have paid for it: an epsilon without it would be too low."""

    class Ending(fakes.Grid):
        def pull_messages(self, message_ids):
            if len(self.trained()) == 4:
                raise how
            return super().pull_messages(message_ids)

    grid = Ending({11: fakes.Client("0"), 12: fakes.Client("1")})
    states = []
    strategy = PrivateStrategy(
        settings(), "run-1", TRAINABLE, lambda report: states.append(strategy.state(0.0))
    )
    with pytest.raises(how):
        strategy.start(grid, encode(START))
    (first,) = strategy.reports
    for name, node in (("0", grid.nodes[11]), ("1", grid.nodes[12])):
        at_the_end = strategy.reporting.budgets()[name]
        assert at_the_end.charges == node.spent
        assert at_the_end.steps == 2 * first.clients[name].steps
        assert at_the_end.epsilon > first.clients[name].epsilon
        assert (at_the_end.status, at_the_end.rounds) == ("failed", 1)
        assert at_the_end.planned_epsilon >= at_the_end.epsilon
    reporting = strategy.reporting
    assert reporting.guarantee().epsilon == max(one.epsilon for one in reporting.budgets().values())
    assert [client.unconfirmed for client in states[-1].clients] == [(), ()]  # a resumed run asks again


def test_a_verified_round_is_counted_once(fakes):
    """The run ends in the evaluation, after the answers."""

    def evaluate(server_round, arrays):
        if server_round == 2:
            raise KeyboardInterrupt
        return MetricRecord({"loss": 1.0})

    grid = fakes.Grid({11: fakes.Client("0"), 12: fakes.Client("1")})
    strategy = strategy_of()
    with pytest.raises(KeyboardInterrupt):
        strategy.start(grid, encode(START), evaluate_fn=evaluate)
    assert strategy.reporting.budgets()["0"].charges == grid.nodes[11].spent
