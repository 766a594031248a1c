"""Share of examples, or of the places of tokens, whose class is the model's first choice."""

from typing import Any

from torchmetrics.classification import MulticlassAccuracy

from fl_dp.form import Form
from fl_dp.tasks.metric import Metric, first_choices


def _make(form: Form) -> Any:
    return MulticlassAccuracy(max(2, form.outputs), average="micro", ignore_index=-100)


METRIC = Metric(_make, targets=("class", "tokens"), prepare=first_choices)
