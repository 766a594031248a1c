"""Records made to be found: what an audit asks of them, and those whose gradients are unit vectors."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError

_MARGIN = 50.0  # of the logits' lead: 1 - sigmoid(50) is far below float32's resolution

Arrays = Mapping[str, NDArray[np.float32]]


class Canaries(Protocol):
    """A model, its data with and without each canary, and how to look for the canaries.

    count: the number m of canaries; model: trained in place; public_size: declared number of records.
    """

    count: int
    model: nn.Module
    public_size: int

    def data(self, included: Tensor) -> TensorData:
        """The ordinary records, and of the canaries those `included` (m,) bool."""
        ...

    def scores(self, before: Arrays, after: Arrays) -> NDArray[np.float64]:
        """(m,) how much each canary seems to have moved the parameters from `before` to `after`."""
        ...


class GradientCanaries:
    """Canary i has the gradient of a unit vector, longer than the clipping bound, in weight i alone.

    They are the worst records that there can be (Dirac gradients in the paper): each moves a weight of its
    own by exactly C in every step that it is drawn for, and nothing else does but the noise. Records are the
    numbers of weights, so that they pass through the shipped step like any others.

    count: canaries; public_size: at least as many; the records beyond the canaries share one more weight.
    loss: under which the gradients are what they are, whatever a run is trained with.
    """

    loss = "cross-entropy"

    def __init__(self, count: int, public_size: int, max_grad_norm: float) -> None:
        if not 1 <= count <= public_size:
            raise ConfigError(f"Expected 1 <= canaries={count} <= records={public_size}.")
        self.count, self.public_size = count, public_size
        self._max_grad_norm, self._gradient_norm = max_grad_norm, 10 * max_grad_norm
        self.model: nn.Module = _OneWeightEach(count + 1, self._gradient_norm)

    def data(self, included: Tensor) -> TensorData:
        ordinary = torch.full((self.public_size - self.count,), self.count)
        numbers = torch.cat([included.nonzero().squeeze(1), ordinary])
        if len(numbers) == 0:
            raise ConfigError(f"None of {self.count} canaries was included; take more of them, or records.")
        return TensorData(numbers.float().unsqueeze(1), torch.ones_like(numbers), ("predicted", "labelled"))

    def scores(self, before: Arrays, after: Arrays) -> NDArray[np.float64]:
        moved = before["weights.weight"].astype(np.float64) - after["weights.weight"]
        return moved[0, : self.count]

    def learning_rate(self, expected_batch_size: int, steps: int) -> float:
        """One with which `steps` steps, drawn in each, move a canary's logit by 1 (without momentum).

        The margin of 50 then lasts, and the gradient stays as it is.

        A step is noised before it is multiplied by the rate: the claim does not depend on it.
        """
        return expected_batch_size / (steps * self._max_grad_norm * self._gradient_norm)


class _OneWeightEach(nn.Module):
    """Logits (b, 2) for inputs (b, 1), numbers of weights; the loss of class 1 is linear in the weight.

    Class 0 leads by a margin that training cannot make up, so that the loss, softplus(margin + z), has the
    slope 1 in z = gradient_norm * weight throughout.
    """

    def __init__(self, count: int, gradient_norm: float) -> None:
        super().__init__()
        self.weights = nn.Linear(count, 1, bias=False)
        nn.init.zeros_(self.weights.weight)
        self._count, self._gradient_norm = count, gradient_norm

    def forward(self, numbers: Tensor) -> Tensor:
        which = numbers[:, 0].long() % self._count  # the probe sends any numbers
        logit = self._gradient_norm * self.weights(F.one_hot(which, self._count).float())  # (b, 1)
        return torch.cat([logit + _MARGIN, torch.zeros_like(logit)], dim=1)
