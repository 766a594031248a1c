"""Updates become global weights: by name, with a state that is kept, and nothing that is not known."""

from dataclasses import replace

import numpy as np
import pytest
from federation.server import short_run
from federation.server.short_run import settings
from flwr.app import ArrayRecord

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.federation.server.combine import Aggregator
from fl_dp.federation.server.verify import RoundResult, Verdict
from fl_dp.federation.wire.arrays import encode, specs

START = {"w": np.float32([1.0, 2.0]), "frozen": np.int64([7])}
TRAINABLE = specs({"w": START["w"]})


def _aggregating(**settings):
    return Aggregator(RunConfig(**settings), TRAINABLE)


def _judged(*values):
    updates = [({"w": np.float32([value, -value])}, 1.0) for value in values]
    verdicts = {str(place): Verdict("trained", arrays=update) for place, (update, _) in enumerate(updates)}
    return RoundResult(updates=updates, verdicts=verdicts)


def _arrays(record: ArrayRecord):
    return {name: array.numpy() for name, array in record.items()}


def test_settings_that_can_never_aggregate_are_refused_at_the_start():
    with pytest.raises(ConfigError, match="fit-clients = 2 can never give them"):
        _aggregating(aggregation="krum")


@pytest.mark.parametrize(("aggregation", "expected"), [("mean", 4.0), ("median", 2.0)])
def test_the_aggregation_is_the_one_that_the_config_names(aggregation, expected):
    new = _arrays(_aggregating(aggregation=aggregation).aggregate(encode(START), _judged(1.0, 2.0, 9.0)))
    np.testing.assert_array_equal(new["w"], [expected, -expected])
    np.testing.assert_array_equal(new["frozen"], [7])


def test_the_servers_learning_rate_is_taken_or_its_optimizers_usual_one():
    for optimizer, expected in (("fedavg:0.5", [2.5, -1.0]), ("fedavg", [4.0, -4.0])):
        new = _arrays(_aggregating(server_optimizer=optimizer).aggregate(encode(START), _judged(4.0)))
        np.testing.assert_array_equal(new["w"], expected)
        assert new["w"].dtype == np.float32


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("aggregation momentum", "the run's state holds .*; resume the run with the fl_dp that"),
        ("optimizer first moment of w", "the run's state holds .*; resume the run with the fl_dp that"),
        ("momentum", r"holds \['momentum'\], which this fl_dp does not know"),
    ],
)
def test_a_state_that_is_not_known_is_refused(name, words):
    with pytest.raises(ConfigError, match=words):
        _aggregating().restore({name: np.zeros(2)})


@pytest.mark.parametrize("optimizer", ["fedavg", "fedadam", "fedavgm", "fedyogi"])
def test_weights_that_are_not_finite_do_not_take_the_place_of_others(optimizer):
    """A client near the largest number that there is, and a server's rate above 1."""
    aggregating = _aggregating(server_optimizer=f"{optimizer}:1e12")
    calm = _aggregating(server_optimizer=f"{optimizer}:1e12")
    assert aggregating.aggregate(encode(START), _judged(3e38)) is None
    assert "not finite" in aggregating.lost
    start = encode({"w": np.zeros(2, np.float32), "frozen": START["frozen"]})
    after, expected = (one.aggregate(start, _judged(1e-9)) for one in (aggregating, calm))
    np.testing.assert_array_equal(_arrays(after)["w"], _arrays(expected)["w"])  # nothing of it is remembered


def test_a_round_without_updates_has_no_result():
    assert _aggregating().aggregate(encode(START), RoundResult()) is None


HALVES = {"weight": np.full(50, 0.5, np.float32)}


def times(factor):
    def lie(update):
        moved = {name: 0.5 + factor * (array - 0.5) for name, array in update.arrays.items()}
        return replace(update, arrays={name: array.astype(np.float32) for name, array in moved.items()})

    return lie


def run_with_liar(fakes, factor, **changes):
    clients = [fakes.Client("0"), fakes.Client("1"), fakes.Client("2", lie=times(factor))]
    config = settings(clients=3, fit_clients=3, rounds=1, **{"learning_rate": 5.0, **changes})
    strategy, _ = short_run.run(clients, fakes, config, start=HALVES)
    return strategy, strategy.result.arrays["weight"].numpy() - HALVES["weight"]


def test_a_huge_update_is_scaled_down_and_still_counts(fakes, caplog):
    strategy, way = run_with_liar(fakes, -5000.0)
    found = strategy.reports[0].clients
    assert (found["0"].scaled, found["1"].scaled) == (1.0, 1.0)
    assert 0 < found["2"].scaled < 0.1
    assert found["2"].status == "trained"
    assert "client 2: an update of length" in caplog.text
    expected = (2 - 5000 * found["2"].scaled) / 3
    np.testing.assert_allclose(way, np.full(50, expected), rtol=1e-5)
    far = abs(run_with_liar(fakes, -1e5)[1]).max()
    assert far < 1.01 * abs(way).max()  # however long it is, it moves the model no further
