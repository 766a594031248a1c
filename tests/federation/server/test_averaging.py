"""The average of the rounds' models: by its definition, kept, measured, resumed; clients never see it."""

import numpy as np
import pytest
import torch
from federation.server.short_run import START, left, serve, settings, strategy_of
from flwr.app import MetricRecord

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.federation.server.averaging import Averaging
from fl_dp.federation.wire.arrays import encode
from fl_dp.records import Refusal

AVERAGE = {"keep_model": "average", "average_decay": 0.25}


def clients(fakes, **mishaps):
    return {11: fakes.Client("0", epsilon=99.0), 12: fakes.Client("1", epsilon=99.0, **mishaps)}


def start(strategy, nodes, fakes):
    """Every round adds 1 to the weights. The largest weights that were measured."""
    seen = []

    def evaluate(server_round, arrays):
        seen.append(float(arrays["weight"].numpy().max()))
        return MetricRecord({"loss": 1.0})

    strategy.start(fakes.Grid(nodes), strategy.result.arrays or encode(START), evaluate_fn=evaluate)
    return seen


def by_hand(values, decay):
    average = values[0]
    for t, value in enumerate(values[1:], start=1):
        now = min(decay, (1 + t) / (10 + t))
        average = now * average + (1 - now) * value
    return average


def test_the_average_of_the_rounds_models_is_measured_and_clients_go_on_from_the_last(fakes):
    strategy = strategy_of(settings(rounds=4, **AVERAGE))
    seen = start(strategy, clients(fakes), fakes)
    assert seen == pytest.approx([by_hand([1, 2, 3, 4][:n], 0.25) for n in (1, 2, 3, 4)])
    assert strategy.result.arrays["weight"].numpy().max() == 4.0
    averaged = strategy.averaged["weight"].numpy()
    assert averaged.dtype == np.float32
    assert averaged.max() == pytest.approx(seen[-1])
    assert strategy.best is None


def test_a_long_decay_begins_short():
    averaging = Averaging(0.9, ["weight"])
    values = [float(value) for value in range(40)]
    for value in values:
        averaging.add(encode({"weight": np.full(2, value)}))
    found = averaging.model(encode({"weight": np.zeros(2)}))["weight"].numpy()
    assert found == pytest.approx(np.full(2, by_hand(values, 0.9)))
    assert found[0] > 39 - 9.5  # without the short beginning the first model would still be in it
    assert abs(by_hand(values[:3], 0.9) - by_hand(values[:3], 0.25)) < 1e-9


def test_a_lost_round_is_not_in_the_average(fakes):
    strategy = strategy_of(settings(rounds=3, min_updates=2, **AVERAGE))
    start(strategy, clients(fakes, mishaps={2: Refusal("failed", "no power")}), fakes)
    assert strategy.reports[-1].lost_rounds == 1
    assert strategy.averaged["weight"].numpy().max() == pytest.approx(by_hand([1, 2], 0.25))


def test_what_nobody_trains_is_the_last_models():
    averaging = Averaging(0.5, ["weight"])
    for value in (1.0, 3.0):
        averaging.add(encode({"weight": np.full(2, value), "count": np.array([value])}))
    found = averaging.model(encode({"weight": np.full(2, 3.0), "count": np.array([3.0])}))
    assert found["count"].numpy().tolist() == [3.0]
    assert found["weight"].numpy()[0] < 3.0


def test_a_resumed_run_goes_on_with_its_average(fakes):
    whole, half, again = (strategy_of(settings(rounds=rounds, **AVERAGE)) for rounds in (4, 2, 4))
    start(whole, clients(fakes), fakes)
    nodes = clients(fakes)
    start(half, nodes, fakes)
    again.resume(half.state("", 1.0))
    start(again, nodes, fakes)
    np.testing.assert_array_equal(again.averaged["weight"].numpy(), whole.averaged["weight"].numpy())


@pytest.mark.parametrize(
    ("key", "array"),
    [
        ("averaged array weight", None),  # half an average
        ("averaged rounds", None),
        ("averaged array weight", np.ones(3)),  # of another model: the next round would fail, and be paid for
        ("averaged array weight", np.ones(())),
        ("averaged array weight", np.array([1.0, np.nan])),
        ("averaged array weight", np.array(["a", "b"])),
        ("averaged rounds", np.array(-10)),  # of which the first decay would be none
        ("averaged rounds", np.array(0)),
        ("averaged rounds", np.array(np.nan)),
        ("averaged rounds", np.array([1])),
    ],
)
def test_what_is_no_average_of_this_model_is_refused(key, array):
    averaging = Averaging(0.5, ["weight"])
    averaging.add(encode({"weight": np.ones(2)}))
    state, own = {**averaging.state(), "other": np.ones(1)}, {"weight": np.ones(2)}
    assert Averaging(0.5, ["weight"]).restore(state, own).keys() == {"other"}
    assert state.pop(key) is not None
    with pytest.raises(ConfigError, match="no average"):
        Averaging(0.5, ["weight"]).restore(state if array is None else {**state, key: array}, own)


def test_a_decay_of_one_is_refused():
    with pytest.raises(ConfigError, match=r"average-decay = 1.0: .*\[0, 1\)"):
        RunConfig(average_decay=1.0)
    assert RunConfig(keep_model="average", evaluate="off").keep_model == "average"


def test_a_run_leaves_its_average_and_its_last_model(tmp_path, fakes):
    average = {"keep-model": "average", "average-decay": 0.25, "learning-rate": 50.0}  # no update is bounded
    serve(tmp_path, fakes.Grid(clients(fakes)), rounds=3, **average)
    lines, summary = left(tmp_path)
    assert (summary["model"], summary["model_round"]) == ("average", 3)
    assert summary["accuracy"] == lines[-1]["accuracy"]
    average, last = (torch.load(tmp_path / f"out/{name}.pt", weights_only=True) for name in ("model", "last"))
    for name, array in average.items():
        moved = (last[name] - array).mean().item()
        assert moved == pytest.approx(3 - by_hand([1, 2, 3], 0.25), abs=1e-5)
