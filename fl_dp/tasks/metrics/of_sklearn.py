"""scikit-learn's metrics, computed over the answers to all records. Its import takes a second."""

import numpy as np
from sklearn import metrics
from torch import Tensor

from fl_dp.errors import ConfigError
from fl_dp.form import Form
from fl_dp.tasks.metric import Metric, OverAll, first_choices


def _auroc(form: Form) -> OverAll:
    if form.targets == "numbers" and form.outputs != 1:
        raise ConfigError(
            f"metric 'auroc' is for classes, or for one number that is 0 or 1, not for {form.outputs} "
            "numbers."
        )
    classes = max(2, form.outputs)

    def of(targets: np.ndarray, scores: np.ndarray) -> float:
        there = (np.bincount(targets, minlength=classes) > 0).all()
        return float(metrics.roc_auc_score(targets, scores, multi_class="ovr")) if there else np.nan

    return OverAll(of)


def _scores(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    if targets.is_floating_point() or outputs.shape[-1] <= 2:
        outputs = outputs.double().reshape(len(targets), -1)
        logit = outputs[:, -1] - outputs[:, 0] if outputs.shape[1] == 2 else outputs[:, 0]
        return logit, targets.flatten().long()
    return outputs.double().softmax(-1), targets


def _balanced(targets: np.ndarray, chosen: np.ndarray) -> float:
    there = np.unique(targets)
    return float(metrics.recall_score(targets, chosen, labels=there, average="macro", zero_division=0))


def _f1(form: Form) -> OverAll:
    binary = form.outputs <= 1 if form.targets == "numbers" else form.targets == "class" and form.outputs <= 2
    average = "binary" if binary else "macro"
    return OverAll(
        lambda targets, chosen: metrics.f1_score(targets, chosen, average=average, zero_division=0)
    )


def _choices(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    if not targets.is_floating_point():
        return first_choices(outputs, targets)
    chosen, right = (outputs.view_as(targets) > 0).int(), targets.int()
    one = targets.ndim == 1 or targets.shape[1] == 1
    return (chosen.flatten(), right.flatten()) if one else (chosen, right)


def _r2(targets: np.ndarray, said: np.ndarray) -> float:
    alike = len(targets) < 2 or (targets == targets[0]).all(0).any()
    return np.nan if alike else metrics.r2_score(targets, said)


def _columns(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """(n, k) each, in float64."""
    return outputs.double().reshape(len(targets), -1), targets.double().reshape(len(targets), -1)


CHOICES = {
    # Area under the ROC curve: how often an example of a class has a higher score for it than one of another.
    # For two classes, that of the second, by the difference of the two logits; for one logit with target 0 or
    # 1, by the logit; for several classes the mean over all of them, each against the rest, by the softmax of
    # the logits. Undefined unless every class has examples.
    "auroc": Metric(_auroc, targets=("class", "numbers"), prepare=_scores),
    # Mean over the classes of the share of their examples whose class is the model's first choice. Only
    # classes with examples count; a constant model scores 1 over their number.
    "balanced-accuracy": Metric(lambda form: OverAll(_balanced), targets=("class",), prepare=first_choices),
    # F1, the harmonic mean of precision and recall: of the second of two classes, else the mean over classes.
    # For labels, each 0 or 1, the mean over the labels. 0 if nothing was found and nothing was there.
    "f1": Metric(_f1, targets=("class", "tokens", "numbers"), prepare=_choices),
    # mean absolute and mean squared error, over all numbers
    "mae": Metric(
        lambda form: OverAll(metrics.mean_absolute_error),
        targets=("numbers",),
        prepare=_columns,
        smaller_is_better=True,
    ),
    "mse": Metric(
        lambda form: OverAll(metrics.mean_squared_error),
        targets=("numbers",),
        prepare=_columns,
        smaller_is_better=True,
    ),
    # R2: 1 minus the squared error over that of the targets' own mean; for several numbers the mean over
    # them. Undefined for a single example, and if a number is the same for all of them.
    "r2": Metric(lambda form: OverAll(_r2), targets=("numbers",), prepare=_columns),
}
