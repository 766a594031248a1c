"""Loss and metrics of the global model against one example at a time, and what is reported of them."""

import json
import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from flwr.app import MetricRecord
from torch import nn

from fl_dp.config.run import RunConfig
from fl_dp.config.task import TaskSettings
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError
from fl_dp.federation.server import evaluation
from fl_dp.federation.server.report import measured, scalar
from fl_dp.reporting.console import _evaluated
from fl_dp.reporting.report_json import strict_json
from fl_dp.tasks.task import Task

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(evaluation, "BATCH_SIZE", 4)  # 10 = 4 + 4 + 2


@pytest.fixture
def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 3), nn.Dropout(0.5))  # off in evaluation


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1, 2, 0])
    return TensorData(torch.randn(10, 5, generator=generator), labels, ("a", "b", "c"))


def task_for(data, kind=Task, **settings):
    task = kind(TaskSettings(**settings))
    task.form = data.form
    return task


def test_evaluation_equals_one_example_at_a_time(model, data):
    result = evaluation.evaluate(model, data, task_for(data), CPU)
    logits = [model[0](data.x[i : i + 1]) for i in range(10)]
    losses = [F.cross_entropy(logits[i], data.y[i : i + 1]).item() for i in range(10)]
    right = [logits[i].argmax().item() == data.y[i].item() for i in range(10)]
    assert result.loss == pytest.approx(sum(losses) / 10)
    assert result.metrics == {"accuracy": pytest.approx(sum(right) / 10)}
    assert not model.training


def test_a_metric_of_the_user_s_own_is_tried_before_anybody_pays(model, data):
    def shares(outputs, targets):
        return (outputs.argmax(1) == targets).double().mean()

    def of_outputs_alone(outputs):
        return outputs.mean()

    class Ours(Task):
        metrics = ("accuracy", shares)

    evaluation.try_own_metrics(model, data, task_for(data, Ours), CPU)
    Ours.metrics = ("accuracy", of_outputs_alone)
    with pytest.raises(ConfigError, match=r"\(of_outputs_alone\).*before the first round: TypeError"):
        evaluation.try_own_metrics(model, data, task_for(data, Ours), CPU)


def calls_of(model, data, task):
    """How often the model is called, and what the evaluation gives."""
    calls = []
    with model.register_forward_hook(lambda *_: calls.append(1)):
        result = evaluation.evaluate(model, data, task, CPU)
    return len(calls), result


def test_the_model_is_called_once_for_losses_and_outputs(model, data):
    count, result = calls_of(model, data, task_for(data, class_weights="1,2,3"))
    assert count == 3  # batches
    losses = F.cross_entropy(model(data.x), data.y, reduction="none")
    assert result.loss == pytest.approx((losses * (data.y + 1)).mean().item())


def test_losses_of_ones_own_are_asked_for_by_themselves(model, data):
    class Own(Task):
        def losses(self, model, batch):
            inputs, targets = batch
            return (model(2 * inputs).argmax(1) == targets).float()

    count, result = calls_of(model, data, task_for(data, Own))
    assert count == 6
    assert result.loss == pytest.approx((model(2 * data.x).argmax(1) == data.y).float().mean().item())
    assert result.metrics == evaluation.evaluate(model, data, task_for(data), CPU).metrics
    task = task_for(data)
    task.losses = lambda model, batch: torch.full((len(batch[0]),), 7.0)  # of this one task
    assert calls_of(model, data, task)[1].loss == 7


def test_weights_and_outputs_of_ones_own_count(model, data):
    class Own(Task):
        def outputs(self, model, inputs):
            return model(inputs).flip(1)

        def weights(self, inputs, targets):
            return inputs[:, 0].abs()

    class Further(Own):
        pass

    count, result = calls_of(model, data, task_for(data, Further))
    outputs = model(data.x).flip(1)
    losses = F.cross_entropy(outputs, data.y, reduction="none") * data.x[:, 0].abs()
    assert count == 3
    assert result.loss == pytest.approx(losses.mean().item())
    assert result.metrics["accuracy"] == pytest.approx((outputs.argmax(1) == data.y).float().mean().item())


def test_metrics_are_the_requested_ones_or_those_of_the_task(model, data):
    def spread(outputs, targets):
        assert outputs.shape == (10, 3)  # all at once
        return outputs.std()

    class Ours(Task):
        metrics = ("f1", spread)

    task = task_for(data, Ours)
    own = evaluation.evaluate(model, data, task, CPU).metrics
    assert own.keys() == {"f1", "spread"}
    assert own["spread"] == pytest.approx(model(data.x).std().item())
    asked = evaluation.evaluate(model, data, task, CPU, ("accuracy-per-class",)).metrics
    assert list(asked) == [f"accuracy-per-class[{name}]" for name in data.classes]
    with pytest.raises(ConfigError, match="metric 'mae' is for targets of numbers, not class"):
        evaluation.evaluate(model, data, task_for(data), CPU, ("mae",))


def test_numbers_have_their_own_loss_and_metrics(data):
    model, numbers = nn.Linear(5, 2), TensorData(data.x, torch.randn(10, 2), ())
    result = evaluation.evaluate(model, numbers, task_for(numbers, loss="mse"), CPU, ("mae", "mse"))
    with torch.no_grad():
        errors = model(data.x) - numbers.y
    assert result.loss == pytest.approx(errors.square().mean().item())
    assert result.metrics["mse"] == pytest.approx(result.loss)
    assert result.metrics["mae"] == pytest.approx(errors.abs().mean().item())


def test_an_undefined_metric_is_null_in_json_and_not_available_on_the_console(model, data):
    alone = data.subset(torch.tensor([0, 3]))  # of one class
    found = evaluation.evaluate(model, alone, task_for(alone), CPU, ("auroc", "accuracy")).metrics
    assert found["auroc"] is None
    record = MetricRecord({"loss": 0.5, "auroc": math.nan, "accuracy": found["accuracy"]})
    reported = measured(record)
    assert reported == {"auroc": None, "accuracy": found["accuracy"]}
    assert json.loads(json.dumps(strict_json(reported), allow_nan=False))["auroc"] is None
    assert _evaluated(reported, 0.5, 1.0) == ("auroc n/a", "loss 1.00")
    assert scalar(MetricRecord({"loss": math.inf}), "loss") is None


def test_outcomes_count_every_record_also_of_persons(model, data, monkeypatch):
    many = data.subset(torch.arange(10).repeat(30))
    found = evaluation.outcomes(model, many, task_for(many), CPU)
    answers = model(data.x).argmax(1)
    expected = torch.zeros(3, 3, dtype=torch.int64)
    for label, answer in zip(data.y, answers, strict=True):
        expected[label, answer] += 30
    assert found["confusion"] == expected.tolist()
    assert not model.training
    persons = replace(many, groups=tuple(str(i % 30) for i in range(300)))
    assert evaluation.outcomes(model, persons, task_for(persons), CPU) == found
    named = task_for(persons, unit="person:id", records_per_person=1)
    assert evaluation.outcomes(model, persons, named, CPU)["withheld"] == "few"  # 12 of a class


def test_outputs_without_classes_give_no_outcomes(model, data):
    class Own(Task):
        def outputs(self, model, inputs):
            return model(inputs)[:, :2]

    numbers = TensorData(data.x, torch.randn(10, 2), ())
    assert evaluation.outcomes(nn.Linear(5, 2), numbers, task_for(numbers, loss="mse"), CPU) == {}
    assert evaluation.outcomes(model, data, task_for(data, Own), CPU) == {}
    assert evaluation.outcomes(model, None, task_for(data), CPU) == {}


def test_the_run_says_which_metrics():
    assert RunConfig(metrics="auroc, f1,").metric_names == ("auroc", "f1")
    assert RunConfig().metric_names == ()
    with pytest.raises(ConfigError, match="metrics = 'auc': expected"):
        RunConfig(metrics="auroc,auc")
