"""Who is chosen for a round."""

import numpy as np
import pytest
from federation.server.short_run import run, settings, statuses, weights

from fl_dp.federation.server.client_sampling import ClientSampler


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
    monkeypatch.setattr(ClientSampler, "choose", lambda self, able, r, left: [] if r == 2 else list(able))
    strategy, grid = run([fakes.Client("0"), fakes.Client("1")], fakes, settings(sampling="poisson"))
    assert strategy.outcome() == ("completed", "")
    assert len(grid.trained()) == 4
    np.testing.assert_array_equal(weights(strategy)["weight"], np.full((2, 3), 2, np.float32))
    empty = strategy.reports[1]
    assert set(statuses(strategy, 2).values()) == {"idle"}
    assert (empty.noise_multiplier, empty.epsilon) == (None, strategy.reports[0].epsilon)


def test_a_poisson_draw_below_min_updates_asks_nobody_and_goes_on(fakes):
    config = settings(clients=4, min_clients=1, fit_clients=2, rounds=30, min_updates=2, sampling="poisson")
    nodes = [fakes.Client(str(i), epsilon=1000.0) for i in range(4)]
    strategy, _ = run(nodes, fakes, config)
    counts = [sum(one.status == "trained" for one in report.clients.values()) for report in strategy.reports]
    assert len(counts) == 30
    assert set(counts) >= {0, 2}
    assert 1 not in counts
    assert strategy.reports[-1].lost_rounds == 0
