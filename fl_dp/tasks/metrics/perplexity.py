"""Perplexity of the next token: e to the mean cross-entropy over all positions that count."""

from typing import Any

from torch import Tensor
from torchmetrics.text import Perplexity

from fl_dp.form import Form
from fl_dp.tasks.metric import Metric


def _make(form: Form) -> Any:
    return Perplexity(ignore_index=-100)


def _exact(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    return outputs.double(), targets  # in float32 the probability of an unlikely token becomes zero


METRIC = Metric(_make, targets=("tokens",), prepare=_exact)
