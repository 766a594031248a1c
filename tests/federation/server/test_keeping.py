"""The best model is kept, divergence noticed and rolled back; the test half is read once, at the end."""

import math

import numpy as np
import pytest
import torch
from federation.server import short_run
from federation.server.short_run import left, serve, settings
from flwr.app import MetricRecord

from fl_dp.config.run import RunConfig
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError, DataError
from fl_dp.federation.server import evaluation
from fl_dp.federation.server.evaluation import halves
from fl_dp.federation.server.keeping import Keeping

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
    server_round, arrays = strategy.best
    assert server_round == 2
    assert arrays["weight"].numpy().max() == 2.0
    assert strategy.result.arrays["weight"].numpy().max() == 3.0
    assert [report.lost for report in strategy.reports] == ["", "", ""]


@pytest.mark.parametrize("bad", [math.nan, math.inf, 6.1])
def test_a_round_that_diverges_is_rolled_back_to_the_best_and_said_to_be_paid_for(fakes, bad, caplog):
    strategy, seen = run(fakes, [2.0, 1.0, 1.5, bad, 0.9])
    assert seen == [0.0, 1.0, 2.0, 3.0, 2.0]  # after the third the model is that of the first round again
    assert "the model is that of round 1 again" in strategy.reports[2].lost
    assert "round 3 is rolled back, and paid for" in caplog.text
    assert [report.lost_rounds for report in strategy.reports] == [0, 0, 1, 1]
    assert strategy.best[0] == 4
    steps = [report.clients["0"].steps for report in strategy.reports]
    assert steps == [10, 20, 30, 40]  # what was rolled back stays spent


def test_a_loss_below_three_times_that_of_the_start_is_no_divergence(fakes):
    strategy, _ = run(fakes, [2.0, 1.0, 5.9])
    assert strategy.reports[-1].lost == ""
    assert strategy.best[0] == 1


def test_the_servers_momentum_of_what_was_rolled_back_is_forgotten(fakes):
    _, seen = run(fakes, [2.0, 1.0, 99.0, 0.5], server_optimizer="fedavgm", server_learning_rate=1.0)
    assert seen == pytest.approx([0.0, 1.0, 2.9, 2.0])


def test_a_resumed_run_knows_its_best_model(fakes):
    strategy, _ = run(fakes, [2.0, 1.0, 1.5])
    again = short_run.strategy_of(settings(rounds=2, **BEST))
    again.resume(strategy.state("", 1.0))
    assert again.best[0] == 1
    np.testing.assert_array_equal(again.best[1]["weight"].numpy(), strategy.best[1]["weight"].numpy())
    with pytest.raises(ConfigError, match="holds no best model"):
        Keeping(on=True).restore({"kept array weight": np.zeros(3)})
    rest = {"optimizer velocity of weight": np.zeros(3)}
    assert Keeping(on=True).restore(rest) == rest


def test_the_last_model_is_kept_unless_asked_otherwise(fakes):
    strategy, seen = run(fakes, [2.0, 1.0, 99.0], keep_model="last")
    assert (strategy.best, strategy.averaged) == (None, None)
    assert seen == [1.0, 2.0]  # the start is not looked at
    assert strategy.reports[-1].lost == ""


@pytest.mark.parametrize("changes", [{"evaluate": "off"}, {"evaluate_every": 0}, {"keep_model": "first"}])
def test_what_nothing_can_be_chosen_by_is_refused(changes):
    with pytest.raises(ConfigError, match="keep-model"):
        RunConfig(**{**BEST, **changes})


def test_a_run_leaves_both_models_and_reads_the_test_half_once(tmp_path, fakes, monkeypatch):
    read = []
    plain = evaluation.evaluate

    def watched(model, data, *rest):
        read.append(data)
        return plain(model, data, *rest)

    monkeypatch.setattr(evaluation, "evaluate", watched)
    clients = {1: fakes.Client("0", epsilon=99.0), 2: fakes.Client("1", epsilon=99.0)}
    serve(tmp_path, fakes.Grid(clients), rounds=3, **{"keep-model": "best", "learning-rate": 50.0})
    lines, summary = left(tmp_path)
    assert summary["model"] == "best"
    best, last = (torch.load(tmp_path / f"out/{name}.pt", weights_only=True) for name in ("model", "last"))
    moved = {float((last[name] - best[name]).mean().round()) for name in best}
    assert moved == {3.0 - summary["model_round"]}
    assert summary["epsilon"] == lines[-1]["epsilon"]  # of all rounds, whichever was chosen
    *rounds, final = read
    assert len(rounds) == 4  # the start and three rounds
    assert all(one is rounds[0] for one in rounds)
    rows = {tuple(x.flatten().tolist()) for x in rounds[0].x}
    assert len(rows & {tuple(x.flatten().tolist()) for x in final.x}) < 5  # digits that are equal by chance
    assert summary["loss"] not in [line["loss"] for line in lines]


def test_halves_share_no_record_and_are_the_same_again():
    data = TensorData(torch.arange(11.0)[:, None], torch.zeros(11, dtype=torch.int64), ("a",))
    one, other = halves(data)
    assert sorted([*one.x[:, 0].tolist(), *other.x[:, 0].tolist()]) == list(range(11))
    assert torch.equal(halves(data)[0].x, one.x)
    with pytest.raises(DataError, match="two test records"):
        halves(data.subset(torch.tensor([0])))
