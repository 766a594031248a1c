"""Every metric against scikit-learn on the whole data, whatever the batches; and where none is defined."""

import math

import pytest
import torch
from sklearn import metrics as reference
from torch import Tensor

from fl_dp.choices import METRICS
from fl_dp.config.task import TaskSettings
from fl_dp.errors import ConfigError
from fl_dp.form import Form
from fl_dp.tasks.metric import Metric, metrics_of
from fl_dp.tasks.task import Task


def measured(
    name: object, form: Form, outputs: Tensor, targets: Tensor, batch: int = 7, loss: str = "cross-entropy"
) -> dict[str, float | None]:
    """name: of a metric; or several, or functions; empty: those of the loss."""
    task = Task(TaskSettings(loss=loss))
    task.form = form
    metrics = metrics_of(task, (name,) if isinstance(name, str) else name)
    for start in range(0, len(targets), batch):
        metrics.update(outputs[start : start + batch], targets[start : start + batch])
    return metrics.values()


def classes(number: int, size: int = 60) -> tuple[Form, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(number)
    targets = torch.randint(number, (size,), generator=generator)
    outputs = torch.randn(size, number, generator=generator)
    outputs[torch.arange(size), targets] += 1.0
    return Form((4,), number), outputs, targets


@pytest.mark.parametrize("number", [2, 4])
def test_of_classes(number: int) -> None:
    form, outputs, targets = classes(number)
    chosen, so = outputs.argmax(1).numpy(), targets.numpy()
    score = outputs.double().softmax(1).numpy()
    expected = {
        "accuracy": reference.accuracy_score(so, chosen),
        "balanced-accuracy": reference.balanced_accuracy_score(so, chosen),
        "auroc": reference.roc_auc_score(so, score[:, 1] if number == 2 else score, multi_class="ovr"),
        "f1": reference.f1_score(so, chosen, average="binary" if number == 2 else "macro"),
    }
    for name, value in expected.items():
        assert measured(name, form, outputs, targets)[name] == pytest.approx(value, abs=1e-6), name
    form, outputs, targets = classes(number, size=200)
    recalls = reference.recall_score(targets.numpy(), outputs.argmax(1).numpy(), average=None)
    found = measured("accuracy-per-class", form, outputs, targets)
    assert found == {
        f"accuracy-per-class[{i}]": pytest.approx(recall, abs=1e-6) for i, recall in enumerate(recalls)
    }


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_of_one_logit_however_far_from_zero(scale: float) -> None:
    """A sigmoid would make all of large ones 1."""
    generator = torch.Generator().manual_seed(0)
    targets = (torch.rand(40, 1, generator=generator) < 0.3).float()
    outputs = torch.randn(40, 1, generator=generator) + targets
    outputs = torch.cat([outputs[:4].sigmoid(), scale * outputs[4:] + scale - 1])
    form, so, said = Form((4,), 1, "numbers"), targets[:, 0].numpy(), outputs[:, 0].numpy()
    auroc, f1 = (measured(name, form, outputs, targets, 2)[name] for name in ("auroc", "f1"))
    assert auroc == pytest.approx(reference.roc_auc_score(so, said))
    assert f1 == pytest.approx(reference.f1_score(so, said > 0))


def test_of_labels() -> None:
    generator = torch.Generator().manual_seed(0)
    targets = (torch.rand(40, 3, generator=generator) < 0.4).float()
    outputs = torch.randn(40, 3, generator=generator) + targets
    expected = reference.f1_score(targets.numpy(), (outputs > 0).numpy(), average="macro")
    form = Form((4,), 3, "numbers")
    assert measured("f1", form, outputs, targets)["f1"] == pytest.approx(expected)
    with pytest.raises(ConfigError, match=r"'auroc' is for classes, or for one number .*, not for 3"):
        measured("auroc", form, outputs, targets)


@pytest.mark.parametrize("wide", [1, 3])
def test_of_numbers(wide: int) -> None:
    generator = torch.Generator().manual_seed(0)
    targets = 1e4 + torch.randn(50, wide, generator=generator)
    outputs = targets + 0.5 * torch.randn(50, wide, generator=generator)
    given = targets[:, 0] if wide == 1 else targets  # one number needs no column
    form, so, said = Form((4,), wide, "numbers"), targets.double().numpy(), outputs.double().numpy()
    expected = {
        "mae": reference.mean_absolute_error(so, said),
        "mse": reference.mean_squared_error(so, said),
        "r2": reference.r2_score(so, said),
    }
    for name, value in expected.items():
        assert measured(name, form, outputs, given)[name] == pytest.approx(value, rel=1e-4), name


def test_of_tokens() -> None:
    generator = torch.Generator().manual_seed(0)
    outputs = torch.randn(9, 5, 11, generator=generator)
    outputs[0, 0, 3] = -200.0  # a chance that is zero in float32
    targets = torch.randint(11, (9, 5), generator=generator)
    targets[0, 0], targets[1:, 4] = 3, -100
    places = targets.flatten() != -100
    loss = torch.nn.functional.cross_entropy(
        outputs.double().flatten(0, 1)[places], targets.flatten()[places]
    )
    form = Form((5,), 11, "tokens", 11)
    found = measured("perplexity", form, outputs, targets)["perplexity"]
    assert found == pytest.approx(math.exp(loss), rel=1e-6)
    right = (outputs.argmax(-1) == targets)[targets != -100].double().mean()
    assert measured("accuracy", form, outputs, targets)["accuracy"] == pytest.approx(right)


def test_what_is_not_defined_is_none() -> None:
    """And nobody is warned: warnings are errors here."""
    two, several = Form((4,), 2), Form((4,), 3)
    ones = torch.ones(8, dtype=torch.int64)
    many = ones.repeat(3)
    assert measured("auroc", two, torch.randn(8, 2), ones) == {"auroc": None}
    assert measured("auroc", several, torch.randn(8, 3), ones) == {"auroc": None}
    found = measured("accuracy-per-class", several, torch.eye(3)[many], many)
    assert found == {
        "accuracy-per-class[0]": None,
        "accuracy-per-class[1]": 1.0,
        "accuracy-per-class[2]": None,
    }
    chosen = torch.tensor([1, 1, 1, 1, 1, 1, 2, 2])
    assert measured("balanced-accuracy", several, torch.eye(3)[chosen], ones) == {"balanced-accuracy": 0.75}
    number = Form((4,), 1, "numbers")
    assert measured("r2", number, torch.randn(8, 1), torch.full((8,), 3.1)) == {"r2": None}
    assert measured("r2", number, torch.randn(1, 1), torch.ones(1)) == {"r2": None}
    nothing = torch.full((2, 5), -100)
    for name in ("perplexity", "accuracy"):
        assert measured(name, Form((5,), 4, "tokens", 4), torch.randn(2, 5, 4), nothing) == {name: None}


BY_NAME = {name: METRICS.load(name, Metric) for name in METRICS.built_in()}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", [n for n, one in BY_NAME.items() if "class" in one.targets and not one.part])
def test_of_a_single_class_nobody_is_warned(name: str, classes: int) -> None:
    ones = torch.ones(30, dtype=torch.int64)
    for chosen in (ones, 0 * ones):
        (value,) = measured(name, Form((4,), classes), torch.eye(classes)[chosen], ones).values()
        assert value is None or value == float((chosen == ones).all())


def test_every_metric_refuses_targets_that_it_is_not_for() -> None:
    refused = 0
    nothing = torch.zeros(0)
    for name in METRICS.built_in():
        for form in (Form((4,), 3), Form((4,), 1, "numbers"), Form((4,), 5, "tokens", 5)):
            if form.targets not in METRICS.load(name, Metric).targets:
                refused += 1
                with pytest.raises(ConfigError, match=f"metric '{name}' is for targets of"):
                    measured(name, form, nothing, nothing)
    assert refused >= len(METRICS.built_in())
    with pytest.raises(ConfigError, match="metrics = 'nothing': expected"):
        measured("nothing", *classes(2))


def test_those_of_the_loss_unless_others_are_asked_for() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0], [0.0, 1.0, 2.0], [0.0, 3.0, 1.0]])
    found = measured((), Form((4,), 3), logits, torch.tensor([0, 1, 1]), 2)
    assert found == {"accuracy": pytest.approx(2 / 3)}
    numbers = torch.tensor([[1.0], [2.0]]), torch.tensor([0.5, 4.0])
    assert measured((), Form((4,), 1, "numbers"), *numbers, loss="mse") == {"mae": pytest.approx(1.25)}
    labels = torch.tensor([[1.0, -1.0], [2.0, 3.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    found = measured((), Form((4,), 2, "numbers"), *labels, loss="bce")
    assert found == {"label-accuracy": pytest.approx(0.75)}


def test_a_function_of_ones_own_sees_all_outputs_at_once() -> None:
    def most(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs.argmax(1) == targets).float().sum()

    def each(outputs: Tensor, targets: Tensor) -> Tensor:
        return torch.stack([outputs[:, 0].mean(), outputs[:, 1].mean()])

    def undefined(outputs: Tensor, targets: Tensor) -> Tensor:
        return torch.tensor(float("nan"))

    outputs, targets = torch.tensor([[1.0, 0.0], [0.0, 3.0]]), torch.tensor([0, 1])
    assert measured((most, each, undefined, "accuracy"), Form((4,), 2), outputs, targets, 1) == {
        "most": 2.0,
        "each[0]": 0.5,
        "each[1]": 1.5,
        "undefined": None,
        "accuracy": 1.0,
    }
