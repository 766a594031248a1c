"""Share of examples, or of token positions, whose class is the model's first choice."""

from fl_dp.form import Form
from fl_dp.tasks.metric import Metric, first_choices, right
from fl_dp.tasks.right_answers import RightAnswers


def _make(form: Form) -> RightAnswers:
    return RightAnswers()


METRIC = Metric(_make, targets=("class", "tokens"), prepare=first_choices, each=right)
