"""What a server has prepared when its first round begins."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flwr.app import ArrayRecord, MetricRecord

if TYPE_CHECKING:
    from torch import nn

    from fl_dp.federation.server.strategy import Evaluate, PrivateStrategy
    from fl_dp.tasks.task import Task


@dataclass(frozen=True)
class Federation:
    """What one run needs; `arrays` are what it starts from.

    evaluate: on what rounds may look at. evaluate_at_the_end: on what no round has seen, where the best model
    is kept; None where the last one is, which `evaluate` has measured.
    """

    task: "Task"
    model: "nn.Module"
    strategy: "PrivateStrategy"
    evaluate: "Evaluate"
    arrays: ArrayRecord
    evaluate_at_the_end: "Callable[[ArrayRecord], MetricRecord] | None" = None
    max_grad_norm: float | None = None
    task_identity: str = ""
