"""Metrics of torchmetrics, whose import takes four seconds of a core, and three that it gets wrong mended."""

from typing import Any

import torch
from torch import Tensor
from torchmetrics import MeanAbsoluteError, MeanSquaredError, R2Score
from torchmetrics.classification import (
    BinaryAUROC,
    BinaryF1Score,
    MulticlassAUROC,
    MulticlassConfusionMatrix,
    MulticlassF1Score,
    MultilabelF1Score,
)
from torchmetrics.utilities import dim_zero_cat

from fl_dp.data.tensor_data import NO_TOKEN
from fl_dp.errors import ConfigError
from fl_dp.form import Form
from fl_dp.tasks.metric import Metric, first_choices

_EQUAL = 1e-12  # of the squares: below it the variance is rounding error


class _OfTwo(BinaryAUROC):
    def compute(self) -> Tensor:  # type: ignore[override]  # as in torchmetrics
        # checked here: torchmetrics gives 0 for a class without examples, which is a valid value
        return super().compute() if _all_there(self.target, 2) else torch.tensor(torch.nan)


class _OfSeveral(MulticlassAUROC):
    def compute(self) -> Tensor:  # type: ignore[override]
        there = _all_there(self.target, int(self.num_classes))
        return super().compute() if there else torch.tensor(torch.nan)


def _all_there(targets: list[Tensor] | Tensor, classes: int) -> bool:
    return bool((torch.bincount(dim_zero_cat(targets).flatten().long(), minlength=classes) > 0).all())


def _auroc(form: Form) -> BinaryAUROC | MulticlassAUROC:
    if form.targets == "numbers" and form.outputs != 1:
        raise ConfigError(
            f"metric 'auroc' is for classes, or for one number that is 0 or 1, not for {form.outputs} "
            "numbers."
        )
    if form.outputs <= 2:
        return _OfTwo()
    return _OfSeveral(form.outputs, average="macro")


def _scores(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Scores in (0, 1): torchmetrics would squash others, batch by batch, and not all of them."""
    if targets.is_floating_point() or outputs.shape[-1] <= 2:
        outputs = outputs.double().reshape(len(targets), -1)
        logit = outputs[:, -1] - outputs[:, 0] if outputs.shape[1] == 2 else outputs[:, 0]
        # monotone in the logits; a sigmoid makes all large ones equal
        return (1 + logit / (1 + logit.abs())) / 2, targets.flatten().long()
    return outputs.double().softmax(-1), targets


class _Balanced(MulticlassConfusionMatrix):
    def compute(self) -> Tensor:
        counts = super().compute().double()  # (classes, classes): target, first choice
        return (counts.diagonal() / counts.sum(1)).nanmean()


def _f1(form: Form) -> Any:
    if form.targets == "numbers":
        return MultilabelF1Score(form.outputs) if form.outputs > 1 else BinaryF1Score()
    if form.targets == "class" and form.outputs <= 2:
        return BinaryF1Score()
    return MulticlassF1Score(form.outputs, average="macro", ignore_index=NO_TOKEN)


def _choices(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    if not targets.is_floating_point():
        return first_choices(outputs, targets)
    said, so = (outputs.view_as(targets) > 0).int(), targets.int()
    one = targets.ndim == 1 or targets.shape[1] == 1
    return (said.flatten(), so.flatten()) if one else (said, so)


class _R2(R2Score):
    def compute(self) -> Tensor:
        spread = self.sum_squared_error - self.sum_error * self.sum_error / self.total
        alike = spread <= _EQUAL * self.sum_squared_error
        return torch.tensor(torch.nan) if self.total < 2 or alike.any() else super().compute()


def _columns(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Float64, so that sums of squares do not cancel."""
    return tuple(one.double().reshape(len(targets), -1) for one in (outputs, targets))  # type: ignore[return-value]


def _flat(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    return outputs.flatten(), targets.flatten()


CHOICES = {
    # Area under the ROC curve: how often an example of a class has a higher score for it than one of another.
    # For two classes, that of the second, by the difference of the two logits; for one logit with target 0 or
    # 1, by the logit; for several classes the mean over all of them, each against the rest, by the softmax of
    # the logits. Undefined unless every class has examples.
    "auroc": Metric(_auroc, targets=("class", "numbers"), prepare=_scores),
    # Mean over the classes of the share of their examples whose class is the model's first choice. Only
    # classes with examples count; a constant model scores 1 over their number.
    "balanced-accuracy": Metric(
        lambda form: _Balanced(max(2, form.outputs)), targets=("class",), prepare=first_choices
    ),
    # F1, the harmonic mean of precision and recall: of the second of two classes, else the mean over classes.
    # For labels, each 0 or 1, the mean over the labels. 0 if nothing was found and nothing was there.
    "f1": Metric(_f1, targets=("class", "tokens", "numbers"), prepare=_choices),
    # mean absolute error, over all numbers
    "mae": Metric(lambda form: MeanAbsoluteError(), targets=("numbers",), prepare=_flat),
    # mean squared error, over all numbers
    "mse": Metric(
        lambda form: MeanSquaredError(),
        targets=("numbers",),
        prepare=lambda outputs, targets: (outputs.double().flatten(), targets.double().flatten()),
    ),
    # R2: 1 minus the squared error over that of the targets' own mean; for several numbers the mean over
    # them. Undefined for a single example, and if a number is the same for all of them.
    "r2": Metric(lambda form: _R2(), targets=("numbers",), prepare=_columns),
}
