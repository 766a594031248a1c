"""An update longer than an honest one can be is scaled down to that, and the round's report says so."""

from dataclasses import replace

import numpy as np
from federation.server import short_run
from federation.server.short_run import settings

START = {"weight": np.full(50, 0.5, np.float32)}


def times(factor):
    def lie(update):
        moved = {name: START[name] + factor * (array - START[name]) for name, array in update.arrays.items()}
        return replace(update, arrays={name: array.astype(np.float32) for name, array in moved.items()})

    return lie


def run(fakes, factor, **changes):
    clients = [fakes.Client("0"), fakes.Client("1"), fakes.Client("2", lie=times(factor))]
    config = settings(clients=3, fit_clients=3, rounds=1, **{"learning_rate": 5.0, **changes})
    strategy, _ = short_run.run(clients, fakes, config, start=START)
    return strategy, strategy.result.arrays["weight"].numpy() - START["weight"]


def test_what_is_minus_fifty_times_as_long_is_scaled_down_and_counts_on(fakes, caplog):
    strategy, way = run(fakes, -5000.0)
    found = strategy.reports[0].clients
    assert (found["0"].scaled, found["1"].scaled) == (1.0, 1.0)
    assert 0 < found["2"].scaled < 0.1
    assert found["2"].status == "trained"
    assert "client 2: an update of length" in caplog.text
    expected = (2 - 5000 * found["2"].scaled) / 3
    np.testing.assert_allclose(way, np.full(50, expected), rtol=1e-5)
    far = abs(run(fakes, -1e5)[1]).max()
    assert far < 1.01 * abs(way).max()  # however long it is, it moves the model no further
