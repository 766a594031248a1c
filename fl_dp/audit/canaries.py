"""Canaries: records made to be found. Each has a gradient in a weight of its own.

The strongest observer is a server that knows all other records, chooses the weights, and sees every step. It
sends the same weights for every step. It then receives the noisy sum of the clipped gradients of the canaries
that were drawn, and of nothing else.
"""

from collections.abc import Mapping

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from fl_dp.accounting.privacy_loss import StepLoss
from fl_dp.config.data import RECORD, DataSettings
from fl_dp.data.persons import Examples, by_unit
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError
from fl_dp.records import RoundPlan

_MARGIN = 50.0  # by which class 0's logit leads: 1 - sigmoid(50) is far below float32's resolution
_RATE = 1000.0  # hostile learning rate over batch size: a step then moves weights far more than rounding
_CLASSES = ("predicted", "labelled")

Arrays = Mapping[str, NDArray[np.float32]]


def examples_of(records: TensorData, unit: DataSettings) -> Examples:
    """Each record as an example; if the unit is a person, a person with twice as many copies as may count."""
    if unit.unit == RECORD:
        return records
    each = 2 * unit.records_per_person
    owners = tuple(f"made for the audit: {person}" for person in range(len(records)) for _ in range(each))
    x, y = records.inputs.repeat_interleave(each, dim=0), records.y.repeat_interleave(each, dim=0)
    return by_unit(TensorData(x, y, records.classes, groups=owners), unit)


class GradientCanaries:
    """Canary i has a gradient in weight i alone, ten times as long as the clipping bound C.

    No record can show more (Dirac gradients in the paper): each step that draws it moves its own weight by
    exactly C, and only the noise also moves that weight. A record is the number of its weight, so that it
    passes through the shipped step like any other.

    count: number of canaries. public_size: number of records, at least as many; records beyond the canaries
    share one more weight. unit: for persons, each canary is a person with twice as many records as may count.
    loss: the loss that gives these gradients, whatever loss a run uses.
    """

    loss = "cross-entropy"

    def __init__(
        self, count: int, public_size: int, max_grad_norm: float, unit: DataSettings | None = None
    ) -> None:
        if not 1 <= count <= public_size:
            raise ConfigError(f"Expected 1 <= canaries={count} <= records={public_size}.")
        self.count, self.public_size = count, public_size
        self._unit = unit or DataSettings()
        self._max_grad_norm, self._gradient_norm = max_grad_norm, 10 * max_grad_norm
        self.model: nn.Module = _OneWeightEach(count + 1, self._gradient_norm)

    def data(self, included: Tensor) -> Examples:
        """The ordinary records, or persons, and the canaries that `included` (m,) bool selects."""
        ordinary = torch.full((self.public_size - self.count,), self.count)
        numbers = torch.cat([included.nonzero().squeeze(1), ordinary])
        if len(numbers) == 0:
            raise ConfigError(f"None of {self.count} canaries was included; use more canaries or records.")
        x, y = numbers.float().unsqueeze(1), torch.ones_like(numbers)
        return examples_of(TensorData(x, y, _CLASSES), self._unit)

    def scores(self, before: Arrays, after: Arrays) -> NDArray[np.float64]:
        """(m,) how far each canary's weight has moved from `before` to `after`."""
        moved = before["weights.weight"].astype(np.float64) - after["weights.weight"]
        return moved[0, : self.count]

    def learning_rate(self, expected_batch_size: int, steps: int) -> float:
        """The rate at which `steps` steps move the logit by 1 for a canary that is drawn in each.

        The logits' margin of 50 then outlasts the training, and without momentum the gradient keeps its
        length. The claim does not depend on the rate: noise is added before a step is multiplied by it.
        """
        return expected_batch_size / (steps * self._max_grad_norm * self._gradient_norm)


class _OneWeightEach(nn.Module):
    """Logits (b, 2) for inputs (b, 1), which are numbers of weights. Class 1's loss is linear in the weight.

    Class 0 leads by a margin that training cannot close. So the loss, softplus(margin + z), always has
    slope 1 in z = gradient_norm * weight.
    """

    def __init__(self, count: int, gradient_norm: float) -> None:
        super().__init__()
        self.weights = nn.Linear(count, 1, bias=False)
        nn.init.zeros_(self.weights.weight)
        self._count, self._gradient_norm = count, gradient_norm

    def forward(self, numbers: Tensor) -> Tensor:
        which = numbers[:, 0].long() % self._count  # the engine's probe may send any numbers
        logit = self._gradient_norm * self.weights(F.one_hot(which, self._count).float())  # (b, 1)
        return torch.cat([logit + _MARGIN, torch.zeros_like(logit)], dim=1)


def hostile_learning_rate(expected_batch_size: int) -> float:
    """A rate so high that the sum can be read from a step despite the rounding of weights."""
    return _RATE * expected_batch_size


class WatchedGradients(GradientCanaries):
    """Gradient canaries in a server's view of every step: scores are exact log-likelihood ratios.

    In one step, canary i's weight moves by noise of deviation s C, and if the canary is included, with
    probability q by C more. `StepLoss` is the logarithm of the ratio of both densities; it adds up over
    steps.
    """

    def __init__(
        self, count: int, public_size: int, plan: RoundPlan, unit: DataSettings | None = None
    ) -> None:
        super().__init__(count, public_size, plan.max_grad_norm, unit)
        self._plan = plan

    def scores(self, before: Arrays, after: Arrays) -> NDArray[np.float64]:
        unit = self._plan.learning_rate / self._plan.expected_batch_size * self._plan.max_grad_norm
        step = StepLoss(self._plan.expected_batch_size / self.public_size, self._plan.noise_multiplier)
        return step.loss(super().scores(before, after) / unit)
