"""Means over examples of classes, labels or tokens, in all or per class or subgroup. No scikit-learn needed.

A value per class or subgroup is withheld if it would reveal few examples, see `fl_dp/tasks/small_cells.py`.
"""

import math

import numpy as np
from torch import Tensor
from torch.nn.functional import cross_entropy

from fl_dp.data.tensor_data import NO_TOKEN
from fl_dp.tasks.metric import Metric, OverAll, first_choices, right
from fl_dp.tasks.parts import CLASS, SUBGROUP


def share_of_equals() -> OverAll:
    """The share of answers that equal the target. scikit-learn's would take a second to import."""
    return OverAll(lambda targets, answers: float((answers == targets).mean()))


def _perplexity(targets: np.ndarray, losses: np.ndarray) -> float:
    """e to the mean cross-entropy over all positions that count."""
    return float(np.exp(losses.mean()))


def _losses(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    counts = targets != NO_TOKEN
    return cross_entropy(outputs[counts].double(), targets[counts], reduction="none"), targets[counts]


def _signs(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    return (outputs > 0).flatten().int(), targets.flatten().int()


def _right_signs(outputs: Tensor, targets: Tensor) -> Tensor:
    return ((outputs > 0) == (targets > 0)).double().reshape(len(targets), -1).mean(1)


def _errors(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs.view_as(targets) - targets).double().abs().reshape(len(targets), -1).mean(1)


def _second(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs.argmax(-1) == 1).double()


def _margin(outputs: Tensor, targets: Tensor) -> Tensor:
    return outputs[:, 1].double() - outputs[:, 0].double()


def _recall(chosen: np.ndarray, classes: np.ndarray) -> float:
    return float(chosen[classes == 1].mean()) if (classes == 1).any() else math.nan


def _rate(chosen: np.ndarray, classes: np.ndarray) -> float:
    return float(chosen.mean()) if len(chosen) else math.nan


def _auroc(scores: np.ndarray, classes: np.ndarray) -> float:
    """The Mann-Whitney statistic, by mean ranks where scores are equal; NaN unless both classes are there."""
    second = int((classes == 1).sum())
    if not 0 < second < len(classes) or np.isnan(scores).any():
        return math.nan
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (counts.cumsum() - (counts - 1) / 2)[place]
    return float((ranks[classes == 1].sum() - second * (second + 1) / 2) / (second * (len(classes) - second)))


CHOICES = {
    # share of examples, or of token positions, whose class is the model's first choice
    "accuracy": Metric(
        lambda form: share_of_equals(), targets=("class", "tokens"), prepare=first_choices, each=right
    ),
    # of the next token
    "perplexity": Metric(
        lambda form: OverAll(_perplexity), targets=("tokens",), prepare=_losses, smaller_is_better=True
    ),
    "accuracy-per-class": Metric(None, targets=("class",), each=right, part=CLASS),
    "accuracy-per-subgroup": Metric(None, targets=("class",), each=right, part=SUBGROUP),
    # share of an example's labels, each 0 or 1, for which the model's logit has the right sign
    "label-accuracy": Metric(lambda form: share_of_equals(), targets=("numbers",), prepare=_signs),
    "label-accuracy-per-subgroup": Metric(None, targets=("numbers",), each=_right_signs, part=SUBGROUP),
    # For two classes: the share of the second class's examples that are found; how often an example of the
    # second class has a higher score for it than one of the first; the share of examples predicted as it.
    "recall-per-subgroup": Metric(None, targets=("class",), each=_second, part=SUBGROUP, within=_recall),
    "auroc-per-subgroup": Metric(None, targets=("class",), each=_margin, part=SUBGROUP, within=_auroc),
    "selection-rate-per-subgroup": Metric(
        None, targets=("class",), each=_second, part=SUBGROUP, within=_rate
    ),
    # mean absolute error, over all numbers of a subgroup's examples
    "mae-per-subgroup": Metric(
        None, targets=("numbers",), each=_errors, part=SUBGROUP, smaller_is_better=True
    ),
}
