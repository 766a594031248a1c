"""The best model is kept, divergence rolled back; the average is by its definition; both are resumed."""

import math

import numpy as np
import pytest
import torch
from federation.server import short_run
from federation.server.short_run import START, left, serve, settings, strategy_of
from flwr.app import MetricRecord

from fl_dp.config.run import RunConfig
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError, DataError
from fl_dp.federation.server import evaluation
from fl_dp.federation.server.evaluation import halves
from fl_dp.federation.server.keep import DECAY, AverageModel, BestModel, LastModel
from fl_dp.federation.wire.arrays import encode
from fl_dp.records import Refusal

BEST = {"keep_model": "best", "learning_rate": 50.0}


def run(fakes, losses, **changes):
    """losses: of the start and of each round's model; every round adds 1 to the weights."""
    seen = []

    def evaluate(server_round, arrays):
        seen.append(float(arrays["weight"].numpy().max()))
        return MetricRecord({"loss": losses[server_round]})

    config = settings(rounds=len(losses) - 1, **{**BEST, **changes})
    nodes = [fakes.Client("0", epsilon=99.0), fakes.Client("1", epsilon=99.0)]
    strategy, _ = short_run.run(nodes, fakes, config, evaluate)
    return strategy, seen


def test_the_best_model_is_kept_beside_the_last(fakes):
    strategy, seen = run(fakes, [2.0, 1.5, 1.0, 1.2])
    assert seen == [0.0, 1.0, 2.0, 3.0]
    _, server_round, arrays = strategy.kept
    assert server_round == 2
    assert arrays["weight"].numpy().max() == 2.0
    assert strategy.result.arrays["weight"].numpy().max() == 3.0
    assert [report.lost for report in strategy.reports] == ["", "", ""]


@pytest.mark.parametrize("bad", [math.nan, math.inf, 6.1])
def test_a_round_that_diverges_is_rolled_back_to_the_best_and_reported_as_paid(fakes, bad, caplog):
    strategy, seen = run(fakes, [2.0, 1.0, 1.5, bad, 0.9])
    assert seen == [0.0, 1.0, 2.0, 3.0, 2.0]  # after the third the model is that of the first round again
    assert "back to the model of round 1" in strategy.reports[2].lost
    assert "round 3 is rolled back but paid for" in caplog.text
    assert [report.lost_rounds for report in strategy.reports] == [0, 0, 1, 1]
    assert strategy.kept.server_round == 4
    steps = [report.clients["0"].steps for report in strategy.reports]
    assert steps == [10, 20, 30, 40]  # what was rolled back stays spent


def test_a_loss_below_three_times_that_of_the_start_is_no_divergence(fakes):
    strategy, _ = run(fakes, [2.0, 1.0, 5.9])
    assert strategy.reports[-1].lost == ""
    assert strategy.kept.server_round == 1


def test_the_servers_momentum_of_what_was_rolled_back_is_forgotten(fakes):
    _, seen = run(fakes, [2.0, 1.0, 99.0, 0.5], server_optimizer="fedavgm:1")
    assert seen == pytest.approx([0.0, 1.0, 2.9, 2.0])


def test_a_resumed_run_knows_its_best_model(fakes):
    strategy, _ = run(fakes, [2.0, 1.0, 1.5])
    again = short_run.strategy_of(settings(rounds=2, **BEST))
    again.resume(strategy.state(1.0))
    assert again.kept.server_round == 1
    np.testing.assert_array_equal(again.kept.arrays["weight"].numpy(), strategy.kept.arrays["weight"].numpy())
    with pytest.raises(ConfigError, match="holds no best model"):
        BestModel().restore({"array weight": np.zeros(3)}, {})
    with pytest.raises(ConfigError, match="beside its last model"):
        LastModel().restore({"array weight": np.zeros(3)}, {})


def test_the_last_model_is_kept_unless_asked_otherwise(fakes):
    strategy, seen = run(fakes, [2.0, 1.0, 99.0], keep_model="last")
    assert strategy.kept is None
    assert seen == [1.0, 2.0]  # the start is not looked at
    assert strategy.reports[-1].lost == ""


@pytest.mark.parametrize("changes", [{"evaluate": "off"}, {"personal": "0.*"}, {"keep_model": "first"}])
def test_settings_that_rule_out_keep_model_are_refused(changes):
    with pytest.raises(ConfigError, match="keep-model"):
        RunConfig(**{**BEST, **changes})


def test_a_run_leaves_both_models_and_reads_the_test_half_once(tmp_path, fakes, monkeypatch):
    read = []
    plain = evaluation.evaluate

    def watched(model, data, *rest):
        read.append(data)
        return plain(model, data, *rest)

    def drawn(data, outputs, owners):
        read.append(data)
        return {"right": float((outputs.argmax(1) == data.y.numpy()).mean())}

    monkeypatch.setattr(evaluation, "evaluate", watched)
    monkeypatch.setattr(evaluation, "of_test_records", drawn)
    clients = {1: fakes.Client("0", epsilon=99.0), 2: fakes.Client("1", epsilon=99.0)}
    serve(tmp_path, fakes.Grid(clients), rounds=3, **{"keep-model": "best", "learning-rate": 50.0})
    lines, summary = left(tmp_path)
    assert summary["model"] == "best"
    best, last = (torch.load(tmp_path / f"out/{name}.pt", weights_only=True) for name in ("model", "last"))
    moved = {float((last[name] - best[name]).mean().round()) for name in best}
    assert moved == {3.0 - summary["model_round"]}
    assert summary["epsilon"] == lines[-1]["epsilon"]  # of all rounds, whichever was chosen
    *rounds, final, pictured = read  # classes are too small there for a constant prediction to be told
    assert len(rounds) == 4  # the start and three rounds
    assert all(one is rounds[0] for one in rounds)
    rows = {tuple(x.flatten().tolist()) for x in rounds[0].x}
    assert len(rows & {tuple(x.flatten().tolist()) for x in final.x}) < 5  # digits that are equal by chance
    assert pictured is final
    assert summary["outcomes"] == {"right": summary["accuracy"]}  # of the model that was kept
    assert summary["loss"] not in [line["loss"] for line in lines]


def test_halves_share_no_record_and_are_the_same_again():
    data = TensorData(torch.arange(11.0)[:, None], torch.zeros(11, dtype=torch.int64), ("a",))
    one, other = halves(data)
    assert sorted([*one.x[:, 0].tolist(), *other.x[:, 0].tolist()]) == list(range(11))
    assert torch.equal(halves(data)[0].x, one.x)
    with pytest.raises(DataError, match="two test records"):
        halves(data.subset(torch.tensor([0])))


AVERAGE = {"keep_model": "average"}


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


def by_hand(values):
    average = values[0]
    for t, value in enumerate(values[1:], start=1):
        now = min(DECAY, (1 + t) / (10 + t))
        average = now * average + (1 - now) * value
    return average


def test_the_average_of_the_rounds_models_is_measured_and_clients_go_on_from_the_last(fakes):
    strategy = strategy_of(settings(rounds=4, **AVERAGE))
    seen = start(strategy, clients(fakes), fakes)
    assert seen == pytest.approx([by_hand([1, 2, 3, 4][:n]) for n in (1, 2, 3, 4)])
    assert strategy.result.arrays["weight"].numpy().max() == 4.0
    averaged = strategy.kept.arrays["weight"].numpy()
    assert averaged.dtype == np.float32
    assert averaged.max() == pytest.approx(seen[-1])
    assert strategy.kept.which == "average"


def test_a_long_decay_begins_short():
    average = AverageModel(["weight"])
    values = [float(value) for value in range(40)]
    for value in values:
        average.add(encode({"weight": np.full(2, value)}))
    found = average.measured(encode({"weight": np.zeros(2)}))["weight"].numpy()
    assert found == pytest.approx(np.full(2, by_hand(values)))
    assert found[0] > 39 - 9.5  # without the short beginning the first model would still be in it


def test_a_lost_round_is_not_in_the_average(fakes):
    strategy = strategy_of(settings(rounds=3, min_updates=2, **AVERAGE))
    start(strategy, clients(fakes, mishaps={2: Refusal("failed", "no power")}), fakes)
    assert strategy.reports[-1].lost_rounds == 1
    assert strategy.kept.arrays["weight"].numpy().max() == pytest.approx(by_hand([1, 2]))


def test_arrays_that_nobody_trains_are_those_of_the_last_model():
    average = AverageModel(["weight"])
    for value in (1.0, 3.0):
        average.add(encode({"weight": np.full(2, value), "count": np.array([value])}))
    found = average.measured(encode({"weight": np.full(2, 3.0), "count": np.array([3.0])}))
    assert found["count"].numpy().tolist() == [3.0]
    assert found["weight"].numpy()[0] < 3.0


def test_a_resumed_run_goes_on_with_its_average(fakes):
    whole, half, again = (strategy_of(settings(rounds=rounds, **AVERAGE)) for rounds in (4, 2, 4))
    start(whole, clients(fakes), fakes)
    nodes = clients(fakes)
    start(half, nodes, fakes)
    again.resume(half.state(1.0))
    start(again, nodes, fakes)
    np.testing.assert_array_equal(again.kept.arrays["weight"].numpy(), whole.kept.arrays["weight"].numpy())


@pytest.mark.parametrize(
    ("key", "array"),
    [
        ("array weight", None),  # half an average
        ("rounds", None),
        ("array weight", np.ones(3)),  # of another model: the next round would fail, and be paid for
        ("array weight", np.ones(())),
        ("array weight", np.array([1.0, np.nan])),
        ("array weight", np.array(["a", "b"])),
        ("rounds", np.array(-10)),  # of which the first decay would be none
        ("rounds", np.array(0)),
        ("rounds", np.array(np.nan)),
        ("rounds", np.array([1])),
    ],
)
def test_the_average_of_another_model_is_refused(key, array):
    average = AverageModel(["weight"])
    average.add(encode({"weight": np.ones(2)}))
    state, own = average.state(), {"weight": np.ones(2)}
    AverageModel(["weight"]).restore(state, own)
    assert state.pop(key) is not None
    with pytest.raises(ConfigError, match="no average"):
        AverageModel(["weight"]).restore(state if array is None else {**state, key: array}, own)


def test_a_run_leaves_its_average_and_its_last_model(tmp_path, fakes):
    average = {"keep-model": "average", "learning-rate": 50.0}  # no update is bounded
    serve(tmp_path, fakes.Grid(clients(fakes)), rounds=3, **average)
    lines, summary = left(tmp_path)
    assert (summary["model"], summary["model_round"]) == ("average", 3)
    assert summary["accuracy"] == lines[-1]["accuracy"]
    average, last = (torch.load(tmp_path / f"out/{name}.pt", weights_only=True) for name in ("model", "last"))
    for name, array in average.items():
        moved = (last[name] - array).mean().item()
        assert moved == pytest.approx(3 - by_hand([1, 2, 3]), abs=1e-5)
