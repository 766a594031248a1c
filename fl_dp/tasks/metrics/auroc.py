"""Area under the ROC curve: how often an example of a class has a higher score for it than one of another.

For two classes, that of the second, by the difference of the two logits; for one logit with target 0 or 1, by
the logit; for several classes the mean over all of them, each against the rest, by the softmax of the logits.
Undefined unless every class has examples.
"""

import torch
from torch import Tensor
from torchmetrics.classification import BinaryAUROC, MulticlassAUROC
from torchmetrics.utilities import dim_zero_cat

from fl_dp.errors import ConfigError
from fl_dp.form import Form
from fl_dp.tasks.metric import Metric


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


def _make(form: Form) -> BinaryAUROC | MulticlassAUROC:
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


METRIC = Metric(_make, targets=("class", "numbers"), prepare=_scores)
