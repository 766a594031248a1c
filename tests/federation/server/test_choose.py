"""Who is chosen for a round: how many, how often, and that only the secret tells."""

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from federation.server.short_run import START, run, settings, statuses, strategy_of, weights

from fl_dp.config.run import RunConfig
from fl_dp.federation.server.choose import ClientChoice, draw
from fl_dp.federation.server.client_record import ClientRecord
from fl_dp.federation.wire.arrays import encode
from fl_dp.records import ClientProfile, Entry


@pytest.mark.parametrize("least", [1, "auto"])
def test_a_client_without_budget_is_idle_and_the_others_go_on(fakes, least):
    poor = fakes.Client("0", epsilon=0.8)
    strategy, _ = run([poor, fakes.Client("1")], fakes, settings(min_updates=least))
    assert strategy.outcome() == ("completed", "")
    assert statuses(strategy, 3) == {"0": "idle", "1": "trained"}
    assert "budget" in strategy.reports[2].clients["0"].reason
    assert strategy.reports[2].lost_rounds == 0


def test_fit_clients_of_those_there_are_chosen_and_the_public_seed_does_not_tell_which(fakes):
    def chosen():
        config = settings(clients=8, min_clients=8, fit_clients=3, rounds=4)
        return run([fakes.Client(str(i)) for i in range(8)], fakes, config)[1].trained()

    first = chosen()
    assert len(first) == 12
    assert any(chosen() != first for _ in range(3))


def test_a_round_for_which_nobody_was_chosen_is_a_round_without_update(fakes, monkeypatch):
    def in_all_rounds_but_one(self, grid, server_round):
        able = self.able(grid)
        return [] if server_round == 2 else able

    monkeypatch.setattr(ClientChoice, "choose", in_all_rounds_but_one)
    strategy, grid = run([fakes.Client("0"), fakes.Client("1")], fakes, settings(sampling="poisson"))
    assert strategy.outcome() == ("completed", "")
    assert len(grid.trained()) == 4
    np.testing.assert_array_equal(weights(strategy)["weight"], np.full((2, 3), 2, np.float32))
    empty = strategy.reports[1]
    assert set(statuses(strategy, 2).values()) == {"idle"}
    assert (empty.noise_multiplier, empty.epsilon) == (None, strategy.reports[0].epsilon)


def test_a_poisson_draw_below_min_updates_asks_nobody_and_goes_on(fakes):
    config = settings(
        clients=4, min_clients=1, fit_clients=2, rounds=30, min_updates=2, sampling="poisson", epsilon=1000.0
    )
    nodes = [fakes.Client(str(i), epsilon=1000.0) for i in range(4)]
    strategy, _ = run(nodes, fakes, config)
    counts = [sum(one.status == "trained" for one in report.clients.values()) for report in strategy.reports]
    assert len(counts) == 30
    assert set(counts) >= {0, 2}
    assert 1 not in counts
    assert strategy.reports[-1].lost_rounds == 0


ABLE = [f"client {number}" for number in range(20)]
SECRET = bytes(range(32))
ROUNDS = range(1, 4001)


def drawn(sampling, able, server_round, expected=5, secret=SECRET):
    return draw(able, sampling, expected, secret, server_round)


@pytest.mark.parametrize("sampling", ["fixed", "poisson"])
def test_every_client_is_chosen_as_often_as_any_other(sampling):
    times = Counter(client for one in ROUNDS for client in drawn(sampling, ABLE, one))
    for client in ABLE:
        assert abs(times[client] / len(ROUNDS) - 0.25) < 5 * (0.25 * 0.75 / len(ROUNDS)) ** 0.5


def test_a_fixed_number_is_drawn_without_replacement_or_all_are_taken():
    for one in range(1, 50):
        chosen = drawn("fixed", ABLE, one)
        assert len(set(chosen)) == len(chosen) == 5
    assert sorted(drawn("fixed", ABLE[:3], 1)) == ABLE[:3]
    assert drawn("fixed", [], 1) == []


@dataclass(frozen=True)
class Seen:
    """A client that has had so many turns."""

    name: int
    turns: int = 0


def test_in_turns_each_client_trains_once_before_any_trains_twice():
    clients = {name: Seen(name) for name in range(7)}
    for one in range(1, 30):
        chosen = drawn("turns", list(clients.values()), one, expected=3)
        assert len(set(chosen)) == 3
        clients |= {client.name: Seen(client.name, client.turns + 1) for client in chosen}
        turns = [client.turns for client in clients.values()]
        assert max(turns) - min(turns) <= 1
    orders = {tuple(drawn("turns", list(map(Seen, range(7))), one, expected=7)) for one in range(1, 30)}
    assert len(orders) > 25, "among equals chance decides"
    assert len(drawn("turns", [Seen(0), Seen(1)], 1)) == 2


def test_a_client_has_had_a_turn_when_it_has_paid_or_may_have():
    profile = ClientProfile("1", 640, 3.0, 1e-5, (), "rdp")
    round_ = Entry(0.1, 4.0, 10)
    one = ClientRecord(profile, 1, (), round_)
    assert one.turns == 0
    assert one.having_taken(round_, (round_,)).turns == 1
    twice = one.not_confirming(round_).not_confirming(round_.taking(7))
    assert twice.turns == 2, "the last round may be shorter"
    assert ClientRecord(profile, 1, (), None).turns == 0


def test_equal_seeds_choose_equal_clients_whatever_the_method(fakes):
    def chosen(seed, **method):
        nodes = [fakes.Client(str(i)) for i in range(9)]
        config = settings(
            clients=9, min_clients=9, fit_clients=4, rounds=5, seed=seed, sampling="turns", **method
        )
        strategy = strategy_of(config)
        strategy.choose_by_seed()
        strategy.start(fakes.Grid(dict(enumerate(nodes, 11))), encode(START))
        return [
            {name for name, one in report.clients.items() if one.status == "trained"}
            for report in strategy.reports
        ]

    plain = chosen(3)
    assert plain == chosen(3, weights="uniform", noise_multiplier=3.0, epsilon=20.0)
    assert plain != chosen(4)
    times = Counter(name for names in plain for name in names)
    assert set(times.values()) == {2, 3}


def test_poisson_choices_are_independent_of_each_other_and_may_be_empty():
    choices = [drawn("poisson", ABLE, one) for one in ROUNDS]
    sizes = [len(chosen) for chosen in choices]
    mean = sum(sizes) / len(sizes)
    variance = sum((size - mean) ** 2 for size in sizes) / len(sizes)
    assert abs(mean - 5) < 0.2
    assert abs(variance - 20 * 0.25 * 0.75) < 0.4  # of a binomial; a fixed number has none
    together = sum({ABLE[0], ABLE[1]} <= set(chosen) for chosen in choices) / len(ROUNDS)
    assert abs(together - 0.25**2) < 0.02
    assert [] in [drawn("poisson", ABLE[:2], one, expected=1) for one in range(1, 20)]


def test_poisson_takes_all_when_few_can_take_part():
    assert drawn("poisson", ABLE[:4], 1) == ABLE[:4]


@pytest.mark.parametrize("sampling", ["fixed", "poisson"])
def test_the_secret_and_the_round_decide(sampling):
    choices = [drawn(sampling, ABLE, one) for one in range(1, 30)]
    assert choices == [drawn(sampling, ABLE, one) for one in range(1, 30)]
    assert all(one != other for one, other in pairwise(choices))
    assert choices != [drawn(sampling, ABLE, one, secret=bytes(32)) for one in range(1, 30)]


def test_every_run_has_a_secret_of_its_own_and_chooses_by_it(monkeypatch):
    first, second = (ClientChoice(RunConfig(clients=20, fit_clients=5), None, None) for _ in range(2))
    assert first.secret != second.secret
    assert len(first.secret) == 32
    second.secret = first.secret  # as a resumed run does
    profile = ClientProfile("1", 640, 3.0, 1e-5, (), "rdp")
    able = [ClientRecord(profile, node, (), None) for node in range(20)]
    monkeypatch.setattr(ClientChoice, "able", lambda self, grid: able)
    choices = [[one.node_id for one in choice.choose(None, 3)] for choice in (first, second)]
    assert choices[0] == choices[1]
