"""The best constant prediction: no other has a smaller loss, and it tells of no few test records."""

import math

import pytest
import torch
from torch import Tensor, nn

from fl_dp.config.task import TaskSettings
from fl_dp.data.tensor_data import TensorData
from fl_dp.federation.server.evaluation import evaluate
from fl_dp.form import Form
from fl_dp.records import LEAST_CELL
from fl_dp.tasks.constant import ConstantPrediction, constant_prediction
from fl_dp.tasks.task import Task

CPU = torch.device("cpu")


def given(y: Tensor, classes: tuple[str, ...] = (), **more: object) -> tuple[Task, TensorData]:
    settings = {key: value for key, value in more.items() if key != "groups"}
    data = TensorData(torch.zeros(len(y), 3), y, classes, groups=more.get("groups", ()))  # type: ignore[arg-type]
    task = Task(TaskSettings(**settings))  # type: ignore[arg-type]
    task.form = data.form
    return task, data


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


CASES = {
    "classes": given((drawn(300) > 0.5).long() + (drawn(300) > 1.0).long(), ("a", "b", "c")),
    "a class without records": given((drawn(300) > 0).long(), ("a", "b", "c")),
    "numbers": given(drawn(300, 2) + 5.0, loss="mse"),
    "labels": given((drawn(300, 2) > 0.5).float(), ("x", "y"), loss="bce"),
}


@pytest.mark.parametrize("case", CASES)
def test_no_other_constant_has_a_smaller_loss(case: str) -> None:
    task, data = CASES[case]
    answer = constant_prediction(task, data)
    assert answer is not None
    best = evaluate(answer, data, task, CPU).loss
    for seed in range(20):
        moved = answer.get_buffer("answer") + 0.1 * torch.randn(
            answer.output_shape[-1], generator=torch.Generator().manual_seed(seed)
        )
        assert best < evaluate(ConstantPrediction(moved, answer.output_shape), data, task, CPU).loss + 1e-6


def test_of_classes_it_is_the_most_frequent_and_its_loss_the_entropy() -> None:
    task, data = given(torch.arange(100) // 75, ("a", "b"))
    answer = constant_prediction(task, data)
    assert answer is not None
    found = evaluate(answer, data, task, CPU, ("accuracy", "balanced-accuracy"))
    assert found.metrics == {"accuracy": 0.75, "balanced-accuracy": 0.5}
    assert found.loss == pytest.approx(-0.75 * math.log(0.75) - 0.25 * math.log(0.25), rel=1e-6)


def test_of_tokens_it_is_their_frequencies_at_every_position_that_counts() -> None:
    tokens = torch.tensor([[0, 1, 1, -100]] * LEAST_CELL)
    task, data = Task(TaskSettings()), TensorData(tokens.clamp_min(0), tokens, ("a", "b", "c"), vocabulary=3)
    task.form = Form((4,), 3, "tokens", 3)
    answer = constant_prediction(task, data)
    assert answer is not None
    outputs = answer(tokens)
    assert outputs.shape == (LEAST_CELL, 4, 3)
    assert torch.allclose(outputs.softmax(-1)[0, 3], torch.tensor([1 / 3, 2 / 3, 0.0]), atol=1e-6)


@pytest.mark.parametrize("rare", [0, LEAST_CELL - 1, LEAST_CELL])
def test_it_is_not_told_where_it_would_tell_of_few(rare: int) -> None:
    classes = (torch.arange(100) < rare).long()
    assert (constant_prediction(*given(classes, ("a", "b"))) is not None) == (rare == LEAST_CELL)
    third = torch.where(classes == 1, 2, torch.arange(100) % 2)
    assert (constant_prediction(*given(third, ("a", "b", "c"))) is not None) == (rare in (0, LEAST_CELL))
    labels = torch.stack([classes, torch.arange(100) % 2], dim=1).float()
    found = constant_prediction(*given(labels, ("x", "y"), loss="bce"))
    assert (found is not None) == (rare == LEAST_CELL)
    numbers = given(drawn(rare + 1)[1:], loss="mse") if rare else None
    assert numbers is None or (constant_prediction(*numbers) is not None) == (rare == LEAST_CELL)
    one = tuple("one" for _ in range(100))
    assert constant_prediction(*given(torch.arange(100) % 2, ("a", "b"), groups=one)) is not None
    person = {"unit": "person:who", "records_per_person": 2, "groups": one}
    assert constant_prediction(*given(torch.arange(100) % 2, ("a", "b"), **person)) is None


def test_of_losses_and_outputs_of_ones_own_it_is_not_known() -> None:
    class Losses(Task):
        def losses(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
            return model(batch[0])[:, 0]

    class Outputs(Task):
        def outputs(self, model: nn.Module, inputs: Tensor) -> Tensor:
            return torch.as_tensor(model(inputs)[0])

    _, data = given(torch.arange(100) % 2, ("a", "b"))
    for one in (Losses(), Outputs()):
        one.form = data.form
        assert constant_prediction(one, data) is None
