"""What the members of a sum give: a step each, or a histogram of their own test records each.

Both go through the same stages. A kind is known by the record that holds its plan; whatever a member has
signed holds for that plan alone, and so for one kind (`wire.common_plan`).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from flwr.app import ArrayRecord, RecordDict

from fl_dp.federation.wire.evaluation import (
    CELLS,
    EVALUATION,
    HISTOGRAM,
    evaluation_only,
    evaluation_to_content,
)
from fl_dp.federation.wire.messages import ARRAYS, PLAN, REPORT, array_record, plan_only, plan_to_content
from fl_dp.federation.wire.partial_sums import summed_names

Shapes = Mapping[str, tuple[int, ...]]


class SumPlan(Protocol):
    """What both plans say of a sum, see `RoundPlan` and `EvaluationPlan`."""

    @property
    def run(self) -> str: ...
    @property
    def server_round(self) -> int: ...
    @property
    def max_grad_norm(self) -> float: ...
    @property
    def noise_multiplier(self) -> float: ...
    @property
    def shares(self) -> int: ...
    @property
    def own_multiplier(self) -> float: ...
    @property
    def common(self) -> object: ...


@dataclass(frozen=True, slots=True)
class Kind:
    """plan, report: the records of a question and of its answer. shapes: of the arrays that are added up, by
    name, from the question; a complex number counts as two.
    """

    plan: str
    report: str
    read: Callable[[RecordDict], Any]
    write: Callable[[Any, ArrayRecord], RecordDict]
    shapes: Callable[[RecordDict], Shapes]

    def asked(self, content: RecordDict, shares: int) -> tuple[SumPlan, RecordDict]:
        """The question's plan for a sum with so many shares of noise, and the question that asks for it."""
        plan: SumPlan = replace(self.read(content), shares=shares)
        return plan, self.write(plan, array_record(content, ARRAYS))


def _of_step(content: RecordDict) -> Shapes:
    weights = array_record(content, ARRAYS)
    kinds = {name: np.dtype(weights[name].dtype).kind for name in summed_names(content)}
    return {
        name: (*weights[name].shape, 2) if kind == "c" else tuple(weights[name].shape)
        for name, kind in kinds.items()
    }


def _of_histogram(content: RecordDict) -> Shapes:
    return {CELLS: (evaluation_only(content).numbers,)}


STEP = Kind(PLAN, REPORT, plan_only, plan_to_content, _of_step)
COUNTS = Kind(EVALUATION, HISTOGRAM, evaluation_only, evaluation_to_content, _of_histogram)


def kind_of(content: RecordDict) -> Kind:
    """The kind of sum that a message belongs to."""
    return COUNTS if EVALUATION in content else STEP


def size_of(shapes: Shapes) -> int:
    return sum(math.prod(shape) for shape in shapes.values())
