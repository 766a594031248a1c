"""PrivateStrategy over a grid in memory: averaging, failures, lies, budgets, early end."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError, FlDpError
from fl_dp.federation.server.client_sampling import ClientSampler
from fl_dp.federation.server.strategy import PrivateStrategy
from fl_dp.federation.wire.arrays import encode, specs
from fl_dp.federation.wire.messages import plan_from_content
from fl_dp.federation.wire.partial_sums import ADD_UP
from fl_dp.records import Entry
from fl_dp.reporting.run_results import to_line
from fl_dp.tasks.own_code import own_parts

IN_TURNS = Path(__file__).parents[3] / "examples" / "strategies" / "in_turns.py"
START = {"weight": np.zeros((2, 3), np.float32), "frozen": np.full(4, 7, np.int64)}
TRAINABLE = specs({"weight": START["weight"]})


def settings(**changes):
    values = {
        "clients": 2, "min_clients": 2, "fit_clients": 2, "rounds": 3, "noise_multiplier": 2.0,
        "expected_batch_size": 64, "round_timeout": 0.3, "accountant": "rdp", "min_updates": 1,
    }  # fmt: skip
    return RunConfig(**{**values, **changes})


def run(nodes, fakes, config=None, evaluate=None):
    """The strategy after a run over `nodes`, and its grid."""
    grid = fakes.Grid(dict(enumerate(nodes, start=11)))
    strategy = PrivateStrategy(config or settings(), "run-1", TRAINABLE, lambda report: None)
    strategy.start(grid, encode(START), evaluate_fn=evaluate)
    return strategy, grid


def weights(strategy):
    return {name: array.numpy() for name, array in strategy.result.arrays.items()}


def statuses(strategy, server_round):
    return {name: client.status for name, client in strategy.reports[server_round - 1].clients.items()}


def test_clients_that_are_asked_for_the_same_share_one_content(fakes):
    nodes = [fakes.Client("0"), fakes.Client("1"), fakes.Client("2", public_size=1900)]
    grid = fakes.Grid(dict(enumerate(nodes, start=11)))
    strategy = PrivateStrategy(settings(clients=3, fit_clients=3), "run-1", TRAINABLE, lambda report: None)
    messages = strategy.configure_train(1, encode(START), ConfigRecord(), grid)
    first, second, third = (
        message.content for message in sorted(messages, key=lambda m: m.metadata.dst_node_id)
    )
    assert first is second
    assert plan_from_content(first)[0].steps != plan_from_content(third)[0].steps


def test_honest_clients_train_every_round_and_the_untrained_entries_stay(fakes):
    strategy, grid = run([fakes.Client("0"), fakes.Client("1")], fakes)
    assert strategy.outcome() == ("completed", "")
    assert len(grid.trained()) == 6
    np.testing.assert_array_equal(weights(strategy)["weight"], np.full((2, 3), 3, np.float32))
    np.testing.assert_array_equal(weights(strategy)["frozen"], START["frozen"])
    assert [r.clients["0"].steps for r in strategy.reports] == [10, 20, 30]
    assert strategy.reports[0].clients["0"].sample_rate == 0.1


def test_the_plan_is_the_configuration(fakes):
    client = fakes.Client("0", public_size=650)
    config = settings(clients=1, min_clients=1, fit_clients=1, rounds=1, local_epochs=2.0)
    run([client], fakes, config)
    (plan,) = client.plans
    assert (plan.run, plan.server_round, plan.model) == ("run-1", 1, "linear")
    assert plan.steps == 21  # ceil(2 * 650 / 64)
    assert (plan.noise_multiplier, plan.max_grad_norm, plan.momentum) == (2.0, 1.0, 0.0)


@pytest.mark.parametrize(("kind", "expected"), [("declared", 1.75), ("uniform", 1.5), ("capped", 5 / 3)])
def test_updates_are_weighted_by_public_sizes_or_equally(fakes, kind, expected):
    def twice(update):
        return replace(update, arrays={"weight": update.arrays["weight"] * 2})

    nodes = [fakes.Client("0", public_size=640), fakes.Client("1", public_size=1920, lie=twice)]
    changes = {"weights": "declared"} if kind == "capped" else {"weights": kind, "max_weight": 0.0}
    strategy, _ = run(nodes, fakes, settings(rounds=1, **changes))
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
    assert clients["3"].reason == "no reply within round-timeout"
    assert set(statuses(strategy, 2).values()) == {"trained"}


def test_a_silent_clients_plan_counts_as_spent_until_it_registers_again(fakes):
    nodes = [fakes.Client("0"), fakes.Client("1", mishaps={1: None})]
    strategy, grid = run(nodes, fakes, settings(rounds=2))
    first, second = (report.clients["1"] for report in strategy.reports)
    assert (first.steps, second.steps) == (10, 10)  # counted in round 1, not taken; taken in round 2
    assert first.epsilon == strategy.reports[0].clients["0"].epsilon
    assert [m.metadata.dst_node_id for m in grid.sent if m.metadata.message_type == "query"] == [11, 12, 12]


def test_what_may_have_been_spent_never_passes_the_clients_own_budget(fakes):
    nodes = [fakes.Client("0", epsilon=0.8, mishaps={1: None})]
    config = settings(clients=1, min_clients=1, fit_clients=1, rounds=1, local_epochs=50.0)
    strategy, _ = run(nodes, fakes, config)
    assert 0 < strategy.reports[0].clients["0"].epsilon <= 0.8


def fewer_entries(update):
    return replace(update, spent=(replace(update.spent[0], steps=1),))


LIES = {
    "more steps than asked": (lambda u: replace(u, steps=11), "claims 11 steps, was asked for 10"),
    "no steps": (lambda u: replace(u, steps=0), "claims 0 steps"),
    "another ledger": (fewer_entries, "its ledger does not show"),
    "less epsilon": (lambda u: replace(u, epsilon=u.epsilon - 1e-3), "claims epsilon"),
    "no epsilon": (lambda u: replace(u, epsilon=float("nan")), "claims epsilon nan"),
    "another delta": (lambda u: replace(u, delta=1e-3), "claims delta 0.001"),
    "a missing array": (lambda u: replace(u, arrays={}), "missing ['weight']"),
    "a wrong shape": (lambda u: replace(u, arrays={"weight": np.zeros(6, np.float32)}), "expected (2, 3)"),
    "a NaN": (lambda u: replace(u, arrays={"weight": u.arrays["weight"] * np.float32("nan")}), "not finite"),
}


@pytest.mark.parametrize(("lie", "reason"), LIES.values(), ids=LIES)
def test_an_update_whose_claim_does_not_match_is_dropped(fakes, lie, reason):
    strategy, _ = run([fakes.Client("0"), fakes.Client("1", lie=lie)], fakes, settings(rounds=1))
    liar = strategy.reports[0].clients["1"]
    assert liar.status == "failed"
    assert reason in liar.reason
    np.testing.assert_array_equal(weights(strategy)["weight"], np.ones((2, 3), np.float32))
    assert liar.epsilon >= strategy.reports[0].clients["0"].epsilon  # what it may have spent


def test_an_update_over_the_clients_own_budget_is_dropped(fakes):
    class Overspender(fakes.Client):
        def profile(self):
            return replace(super().profile(), epsilon=1.0)  # what it says; it spends up to 3

    strategy, _ = run([fakes.Client("0"), Overspender("1")], fakes, settings(rounds=2))
    assert strategy.reports[0].clients["1"].status == "trained"
    second = strategy.reports[1].clients["1"]
    assert second.status == "failed"
    assert "over its budget of 1" in second.reason
    np.testing.assert_array_equal(weights(strategy)["weight"], np.full((2, 3), 2, np.float32))


@pytest.mark.parametrize(
    "content",
    [RecordDict(), RecordDict({"arrays": ArrayRecord({"weight": Array("float32", (2,), "x", b"junk")})})],
)
def test_a_malformed_reply_is_a_failure_in_words(fakes, content):
    nodes = [fakes.Client("0"), fakes.Client("1", mishaps={1: content})]
    strategy, _ = run(nodes, fakes, settings(rounds=1))
    assert strategy.reports[0].clients["1"].status == "failed"
    assert "record" in strategy.reports[0].clients["1"].reason


def test_the_run_ends_early_when_no_budget_is_left_and_no_epsilon_passes_it(fakes):
    nodes = [fakes.Client("0", epsilon=1.5), fakes.Client("1", epsilon=1.5)]
    strategy, _ = run(nodes, fakes, settings(rounds=40))
    status, reason = strategy.outcome()
    assert status == "budget-exhausted"
    assert "budget" in reason
    assert 1 <= len(strategy.reports) < 40
    assert all(report.epsilon <= 1.5 for report in strategy.reports)
    assert strategy.reports[-1].epsilon > 1.45


def test_a_client_without_budget_is_idle_and_the_others_go_on(fakes):
    poor = fakes.Client("0", epsilon=0.8)
    strategy, _ = run([poor, fakes.Client("1")], fakes)
    assert strategy.outcome() == ("completed", "")
    assert statuses(strategy, 3) == {"0": "idle", "1": "trained"}
    assert "budget" in strategy.reports[2].clients["0"].reason


def test_budgets_spent_before_the_run_end_it_at_once(fakes):
    spent = (Entry(0.1, 0.5, 10_000),)
    strategy, grid = run([fakes.Client("0", spent=spent), fakes.Client("1", spent=spent)], fakes)
    assert strategy.outcome()[0] == "budget-exhausted"
    assert not grid.trained()
    assert strategy.budgets()["0"].steps == 10_000


def test_auto_noise_fits_every_clients_own_budget_over_all_rounds(fakes):
    nodes = [fakes.Client("0", epsilon=1.0), fakes.Client("1", epsilon=3.0, public_size=1280)]
    strategy, _ = run(nodes, fakes, settings(rounds=4, noise_multiplier="auto"))
    last = strategy.reports[-1].clients
    assert strategy.outcome() == ("completed", "")
    assert 0.97 < last["0"].epsilon <= 1.0
    assert 2.9 < last["1"].epsilon <= 3.0
    assert len({plan.noise_multiplier for plan in nodes[0].plans}) == 1  # kept for the run
    assert strategy.reports[0].noise_multiplier == nodes[1].plans[0].noise_multiplier  # the least


def test_a_run_in_which_no_client_ever_trained_has_failed(fakes):
    refusal = fakes.Refusal("declined", "asks for noise multiplier 2, this client's least is 5")
    nodes = [fakes.Client(name, mishaps={1: refusal, 2: refusal}) for name in "01"]
    status, reason = run(nodes, fakes, settings(rounds=2))[0].outcome()
    assert status == "failed"
    assert reason.endswith(refusal.reason)


def test_fit_clients_of_those_there_are_chosen_and_the_public_seed_does_not_tell_which(fakes):
    def chosen():
        config = settings(clients=8, min_clients=8, fit_clients=3, rounds=4)
        return run([fakes.Client(str(i)) for i in range(8)], fakes, config)[1].trained()

    first = chosen()
    assert len(first) == 12
    assert any(chosen() != first for _ in range(3))


def test_a_round_for_which_nobody_was_chosen_is_a_round_without_update(fakes, monkeypatch):
    monkeypatch.setattr(ClientSampler, "choose", lambda self, able, r, left: [] if r == 2 else list(able))
    strategy, grid = run([fakes.Client("0"), fakes.Client("1")], fakes, settings(sampling="poisson"))
    assert strategy.outcome() == ("completed", "")
    assert len(grid.trained()) == 4
    np.testing.assert_array_equal(weights(strategy)["weight"], np.full((2, 3), 2, np.float32))
    empty = strategy.reports[1]
    assert set(statuses(strategy, 2).values()) == {"idle"}
    assert (empty.noise_multiplier, empty.epsilon) == (None, strategy.reports[0].epsilon)


def test_spent_budgets_end_a_run_with_poisson_sampling_too(fakes):
    nodes = [fakes.Client("0", epsilon=1.0), fakes.Client("1", epsilon=1.0)]
    strategy, _ = run(nodes, fakes, settings(rounds=40, sampling="poisson"))
    assert strategy.outcome()[0] == "budget-exhausted"


class Killed(BaseException):
    """As SIGKILL: nothing is tidied up."""


def resumable(fakes, config, states, kill=lambda moment, server_round: None):
    """A new process on the same disks: the strategy as `states` left it, to which it adds. `kill` is asked at
    every moment at which the run may end.
    """
    strategy = PrivateStrategy(config, "run-1", TRAINABLE, lambda r: keep("over", r), lambda: keep("known"))

    def keep(moment, report=None):
        states.append(strategy.state(to_line(strategy.reports[-1]) if strategy.reports else "", 1.0))
        kill(moment, report.round if report else 0)

    if states:
        strategy.resume(states[-1])
    return strategy


class SameAgain:
    """A simulated client: asked again for a round it gives the same update, and pays for it once."""

    def __init__(self, client, kill):
        self.client, self.kill, self.paid = client, kill, {}

    def __call__(self, message):
        if message.metadata.message_type == "query":
            return self.client(message)
        number = plan_from_content(message.content)[0].server_round
        content = self.paid.get(number) or self.client(message).content
        self.paid[number] = content
        self.kill("asked", number)
        return Message(content, reply_to=message)


@pytest.mark.parametrize("moment", ["known", "asked", "over"])
@pytest.mark.parametrize(
    "changes",
    [{}, {"sampling": "poisson"}, {"server_optimizer": "fedadam"}, {"aggregation": "median"}],
    ids=str,
)
def test_a_run_killed_at_any_moment_and_resumed_is_the_run_that_was_not(fakes, moment, changes):
    config = settings(clients=6, min_clients=6, fit_clients=3, rounds=8, **changes)

    def reports(deadly):
        deaths = set(deadly)

        def kill(*at):
            if at in deaths:
                deaths.remove(at)
                raise Killed

        clients = [fakes.Client(str(i), epsilon=1.0 + i / 4) for i in range(6)]
        nodes = {10 + i: SameAgain(client, kill) for i, client in enumerate(clients)}
        states, lines = [beginning], {}
        while True:
            strategy = resumable(fakes, config, states, kill)
            try:
                strategy.start(fakes.Grid(nodes), encode(states[-1].arrays))
            except Killed:
                continue
            finally:
                lines |= {one.round: replace(one, seconds=0.0) for one in strategy.reports}
            assert not deaths
            return lines, weights(strategy), [client.spent for client in clients], strategy.budgets()

    fresh = resumable(fakes, config, [])
    beginning = replace(fresh.state("", 0.0), arrays=START, secret=b"both runs choose alike")
    straight, broken = reports([]), reports([(moment, r) for r in ((0,) if moment == "known" else (1, 4, 8))])
    assert len(straight[0]) == 8
    assert broken[0] == straight[0]
    np.testing.assert_array_equal(broken[1]["weight"], straight[1]["weight"])
    assert broken[2:] == straight[2:]


def test_under_a_new_name_a_round_that_nobody_knows_of_counts_until_the_client_registers(fakes):
    grid = fakes.Grid({11: fakes.Client("0"), 12: fakes.Client("1")})
    first = PrivateStrategy(settings(rounds=1), "run-1", TRAINABLE, lambda report: None)
    first.start(grid, encode(START))
    state = replace(first.state(to_line(first.reports[0]), 1.0), secret=b"s" * 32)
    second = PrivateStrategy(settings(min_clients=1), "run-2", TRAINABLE, lambda report: None)
    second.resume(state)
    assert [budget.steps for budget in second.budgets().values()] == [20, 20]
    again = fakes.Grid({21: grid.nodes[11]})
    second.start(again, encode(state.arrays))
    assert [report.round for report in second.reports] == [1, 2, 3]
    assert {name: one.steps for name, one in second.reports[-1].clients.items()} == {"0": 30, "1": 20}
    assert len([one for one in again.sent if one.metadata.message_type == "query"]) == 1
    assert {plan.run for plan in grid.nodes[11].plans} == {"run-1", "run-2"}


def test_every_known_client_stands_in_every_line(fakes):
    config = settings(clients=4, min_clients=4, fit_clients=1, rounds=2)
    strategy, _ = run([fakes.Client(str(i)) for i in range(4)], fakes, config)
    assert all(len(report.clients) == 4 for report in strategy.reports)
    assert sorted(statuses(strategy, 1).values()) == ["idle", "idle", "idle", "trained"]


def test_too_few_clients_is_an_error_that_says_how_many(fakes):
    with pytest.raises(FlDpError, match="min-clients = 2 clients, 1 are there"):
        run([fakes.Client("0")], fakes)


def test_the_evaluation_of_each_round_stands_in_its_report(fakes):
    def evaluate(server_round, arrays):
        return MetricRecord({"loss": float(arrays["weight"].numpy().mean()), "accuracy": server_round / 10})

    strategy, _ = run([fakes.Client("0"), fakes.Client("1")], fakes, evaluate=evaluate)
    assert [(r.loss, r.accuracy) for r in strategy.reports] == [(1.0, 0.1), (2.0, 0.2), (3.0, 0.3)]
    assert all(report.seconds > 0 for report in strategy.reports)


def test_what_is_not_evaluated_has_no_loss(fakes):
    """Without something to evaluate with in any round; else in the rounds that are due, and in the last."""
    asked = []

    def evaluate(server_round, arrays):
        asked.append(server_round)
        return MetricRecord({"loss": 1.0, "accuracy": 0.5})

    clients = [fakes.Client("0"), fakes.Client("1")]
    strategy, _ = run(clients, fakes, settings(rounds=2), evaluate=None)
    assert [report.loss for report in strategy.reports] == [None, None]
    strategy, _ = run(clients, fakes, settings(rounds=5, evaluate_every=2), evaluate=evaluate)
    assert asked == [2, 4, 5]
    assert [report.loss for report in strategy.reports] == [None, 1.0, None, 1.0, 1.0]


def test_a_number_of_the_client_stands_in_its_line(fakes):
    strategy, _ = run(
        [fakes.Client("0"), fakes.Client("1", mishaps={1: fakes.Refusal("declined", "no")})],
        fakes,
        settings(rounds=1),
    )
    clients = strategy.reports[0].to_dict()["clients"]
    assert clients["0"]["reported"] == {"steps": 10}
    assert clients["1"]["reported"] == {}


def test_another_federation_replaces_one_part(fakes):
    """Here the choice, by the example's file: the client that has taken the fewest steps trains."""
    make_parts = own_parts(f"{IN_TURNS}:in_turns")
    config = settings(rounds=4, fit_clients=1)
    strategy = PrivateStrategy(config, "run-1", TRAINABLE, lambda r: None, make_parts=make_parts)
    strategy.start(fakes.Grid({11: fakes.Client("0"), 12: fakes.Client("1")}), encode(START))
    trained = [[n for n, c in r.clients.items() if c.status == "trained"] for r in strategy.reports]
    assert trained == [["0"], ["1"], ["0"], ["1"]]


class AddsUp:
    """A grid that could answer with sums."""

    adds_up = True


@pytest.mark.parametrize(("aggregation", "asked"), [("mean", True), ("median", False)])
def test_only_an_aggregation_that_can_use_sums_asks_for_them(fakes, aggregation, asked):
    class Grid(AddsUp, fakes.Grid):
        pass

    grid = Grid({11: fakes.Client("0"), 12: fakes.Client("1")})
    config = settings(rounds=1, aggregation=aggregation)
    strategy = PrivateStrategy(config, "run-1", TRAINABLE, lambda report: None)
    strategy.start(grid, encode(START))
    trained = [message for message in grid.sent if message.metadata.message_type == "train"]
    assert [ADD_UP in message.content for message in trained] == [asked, asked]


def test_a_sum_that_is_lost_leaves_no_round_that_was_trained(fakes):
    """Two clients answer for a group whose sum never comes: none of them has taken part in the average."""

    class Grid(AddsUp, fakes.Grid):
        pass

    class WithoutSum(fakes.Client):
        def __call__(self, message):
            reply = super().__call__(message)
            if message.metadata.message_type == "train":
                reply.content["group"] = ConfigRecord({"group": "1"})
                reply.content["arrays"] = ArrayRecord()
            return reply

    strategy = PrivateStrategy(settings(rounds=1), "run-1", TRAINABLE, lambda report: None)
    strategy.start(Grid({11: WithoutSum("0"), 12: WithoutSum("1")}), encode(START))
    clients = strategy.reports[0].clients.values()
    assert {(client.status, client.steps) for client in clients} == {("failed", 10)}  # and it is paid for
    assert {one.rounds for one in strategy.budgets().values()} == {0}
    assert strategy.outcome()[0] == "failed"
    np.testing.assert_array_equal(weights(strategy)["weight"], START["weight"])


FAILS = {1: None, 2: None}  # silence in the first two rounds


def test_a_round_with_fewer_updates_than_are_needed_is_lost_and_said_to_be_paid_for(fakes, caplog):
    nodes = [fakes.Client("0"), fakes.Client("1", mishaps={1: None}), fakes.Client("2", mishaps={1: None})]
    config = settings(clients=3, min_clients=3, fit_clients=3, rounds=2, min_updates="auto")
    strategy, _ = run(nodes, fakes, config)
    first, second = strategy.reports
    assert (first.lost, first.lost_rounds) == ("1 updates remain, 3 are needed (min-updates, aggregation)", 1)
    assert (second.lost, second.lost_rounds) == ("", 1)
    assert first.clients["0"].epsilon > 0
    assert "round 1 is lost, and paid for" in caplog.text
    np.testing.assert_array_equal(weights(strategy)["weight"], np.ones((2, 3), np.float32))
    assert strategy.outcome() == ("completed", "")
    assert strategy.reports[-1].lost_rounds == 1


def test_a_run_of_lost_rounds_has_failed(fakes):
    nodes = [fakes.Client("0"), fakes.Client("1", mishaps=FAILS)]
    strategy, _ = run(nodes, fakes, settings(rounds=2, min_updates="auto"))
    status, reason = strategy.outcome()
    assert status == "failed"
    assert "No round has changed the model. The last one: 1 updates remain, 2 are needed" in reason


def test_where_budgets_have_ended_the_others_go_on(fakes):
    poor = fakes.Client("0", epsilon=0.8)
    strategy, _ = run([poor, fakes.Client("1")], fakes, settings(min_updates="auto"))
    assert statuses(strategy, 3) == {"0": "idle", "1": "trained"}
    assert strategy.reports[-1].lost_rounds == 0


def test_a_round_that_cannot_have_as_many_updates_as_are_named_is_not_paid_for(fakes):
    poor = fakes.Client("0", epsilon=0.8)
    strategy, _ = run([poor, fakes.Client("1")], fakes, settings(min_updates=2))
    assert strategy.outcome()[0] == "budget-exhausted"
    assert "fewer than min-updates" in strategy.outcome()[1]
    assert len(strategy.reports) == 1
    assert strategy.budgets()["1"].steps == 10


def test_a_poisson_draw_below_min_updates_asks_nobody_and_goes_on(fakes):
    config = settings(clients=4, min_clients=1, fit_clients=2, rounds=30, min_updates=2, sampling="poisson")
    nodes = [fakes.Client(str(i), epsilon=1000.0) for i in range(4)]
    strategy, _ = run(nodes, fakes, config)
    counts = [sum(one.status == "trained" for one in report.clients.values()) for report in strategy.reports]
    assert len(counts) == 30
    assert set(counts) >= {0, 2}
    assert 1 not in counts
    assert strategy.reports[-1].lost_rounds == 0


def test_a_full_disk_costs_rounds_while_it_is_full_and_no_more(fakes):
    """As it was tried: the ledger cannot be opened for two rounds, in a round and at registration."""

    class Full(fakes.Client):
        registrations = 0

        def __call__(self, message):
            self.registrations += message.metadata.message_type == "query"
            if self.registrations == 2 or (self.registrations == 1 and self.plans):
                return fakes.refuse("failed", "its ledger cannot be used; its own log says why")(message)
            return super().__call__(message)

    config = settings(min_clients=1, rounds=5)
    strategy, _ = run([fakes.Client("0", epsilon=9.0), Full("1", epsilon=9.0)], fakes, config)
    found = [(report.clients["1"].status, report.clients["1"].reason) for report in strategy.reports]
    unusable = "its ledger cannot be used; its own log says why"
    assert found == [
        ("trained", ""), ("failed", unusable), ("idle", unusable), ("trained", ""), ("trained", ""),
    ]  # fmt: skip


@pytest.mark.parametrize("status", ["failed", "declined"])
def test_a_refusal_without_a_reason_is_reported_with_words(fakes, status):
    nodes = [fakes.Client("0"), fakes.Client("1", mishaps={1: fakes.Refusal(status, " \n")})]
    strategy, _ = run(nodes, fakes, settings(rounds=1))
    assert strategy.reports[0].clients["1"].reason == "it gave no reason"


def test_a_round_with_fewer_updates_than_krum_needs_is_lost(fakes):
    silent = {1: None}
    nodes = [fakes.Client(str(i), mishaps=silent if i == 0 else {}) for i in range(5)]
    config = settings(
        clients=5, fit_clients=5, rounds=2, aggregation="krum", min_updates=1, learning_rate=50.0
    )
    strategy, _ = run(nodes, fakes, config)
    assert strategy.reports[0].lost == "4 updates remain, 5 are needed (min-updates, aggregation)"
    assert strategy.reports[1].lost == ""
    np.testing.assert_array_equal(weights(strategy)["weight"], np.ones((2, 3), np.float32))


def test_krum_with_fewer_clients_than_it_needs_is_refused_at_the_start(fakes):
    with pytest.raises(ConfigError, match="a round needs 5 updates, fit-clients = 2 can never give them"):
        run([fakes.Client("0"), fakes.Client("1")], fakes, settings(aggregation="krum"))


@pytest.mark.parametrize(("most", "expected"), [(2.0, [640.0, 640.0, 1280.0]), (0.0, [640.0, 640.0, 6.4e6])])
def test_weights_of_sums_are_capped_before_they_are_added_up(fakes, most, expected):
    class Grid(AddsUp, fakes.Grid):
        pass

    grid = Grid({11: fakes.Client("0"), 12: fakes.Client("1"), 13: fakes.Client("2", 6_400_000)})
    config = settings(clients=3, fit_clients=3, rounds=1, max_weight=most)
    strategy = PrivateStrategy(config, "run-1", TRAINABLE, lambda report: None)
    strategy.start(grid, encode(START))
    trained = [message for message in grid.sent if message.metadata.message_type == "train"]
    found = sorted(message.content[ADD_UP]["weight"] for message in trained)
    assert found == pytest.approx(expected)
