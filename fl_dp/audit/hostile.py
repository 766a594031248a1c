"""The strongest observer: a server that knows all other records, chooses the weights, and sees every step.

It sends the same hostile weights for every step. Each time it receives the noisy sum of the clipped gradients
of those canaries that were drawn, and of nothing else.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fl_dp.accounting.privacy_loss import StepLoss
from fl_dp.audit.canaries import Arrays, GradientCanaries, examples_of
from fl_dp.audit.hostile_weights import craft
from fl_dp.config.data import DataSettings
from fl_dp.data.persons import Examples
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError
from fl_dp.records import RoundPlan
from fl_dp.training.losses import loss_of

LOSS = "cross-entropy"  # the loss for which the hostile weights are made
_RATE = 1000.0  # the learning rate over the batch size: a step then moves weights far more than rounding does
_MOST_NUMBERS = 200_000_000  # in all canaries' gradients together, 8 bytes each while they are compared


def hostile_learning_rate(expected_batch_size: int) -> float:
    """A rate so high that the sum can be read from a step in spite of the weights' rounding."""
    return _RATE * expected_batch_size


class WatchedGradients(GradientCanaries):
    """Gradient canaries whose every step is watched: scores are exact log-likelihood ratios.

    In one step, canary i's weight moves by noise of deviation s C and, if the canary is included, with
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


class HostileRecords:
    """Canaries made for hostile weights of `model`, among known records whose gradient there is zero.

    The server receives g, the noisy sum of the canaries' clipped gradients u_i C, and computes the least
    squares estimate b = (U U^T)^-1 U g / C. Its component i depends on canary i alone: it is 1 or 0, plus
    noise of s times the root of (U U^T)^-1_ii. That factor is 1 for orthogonal gradients.
    count: number of canaries; public_size: canaries and known records. unit: if it is a person, each record
    is a person with copies of it, twice as many as may count.
    """

    loss = LOSS

    def __init__(
        self,
        model: nn.Module,
        name: str,
        known: TensorData,
        count: int,
        seed: int = 0,
        unit: DataSettings | None = None,
    ) -> None:
        crafted = craft(model, name, known, count, torch.Generator().manual_seed(seed))
        self.model, self.count = model, len(crafted.canaries)
        self.public_size = self.count + len(crafted.known)
        self._canaries, self._known = crafted.canaries, crafted.known
        gradients = self._gradients()
        lengths = gradients.norm(dim=1)
        self._shortest = float(lengths.min())
        self._units = gradients / lengths.unsqueeze(1)
        self._inverse = _inverse(self._units @ self._units.T)
        self._plan: RoundPlan | None = None
        self._unit = unit or DataSettings()

    def max_grad_norm(self, at_most: float) -> float:
        """A clipping bound that shortens every canary's gradient; the server may choose any allowed bound."""
        return min(at_most, 0.9 * self._shortest)

    def watch(self, plan: RoundPlan) -> None:
        """Score what `plan` releases from now on; its learning rate is `hostile_learning_rate`."""
        self._plan = plan

    def data(self, included: Tensor) -> Examples:
        canaries, known = self._canaries, self._known
        x = torch.cat([known.x, canaries.x[included]])
        y = torch.cat([known.y, canaries.y[included]])
        return examples_of(TensorData(x, y, known.classes), self._unit)

    def scores(self, before: Arrays, after: Arrays) -> NDArray[np.float64]:
        plan = self._plan
        assert plan is not None
        moved = np.concatenate([(before[n].astype(np.float64) - after[n]).ravel() for n in self._names()])
        noisy = torch.from_numpy(moved) * (plan.expected_batch_size / plan.learning_rate / plan.max_grad_norm)
        estimates = (self._inverse @ (self._units @ noisy)).numpy()
        rate, deviations = (
            plan.expected_batch_size / self.public_size,
            self._inverse.diagonal().sqrt().numpy(),
        )
        losses = [
            StepLoss(rate, plan.noise_multiplier * float(deviation)).loss(estimate)
            for estimate, deviation in zip(estimates, deviations, strict=True)
        ]
        return np.array(losses)

    def _names(self) -> list[str]:
        return [name for name, parameter in self.model.named_parameters() if parameter.requires_grad]

    def _gradients(self) -> Tensor:
        """(count, d) float64: gradients of each canary's loss at the hostile weights."""
        parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        numbers = self.count * sum(parameter.numel() for parameter in parameters)
        if numbers > _MOST_NUMBERS:
            raise ConfigError(
                f"canaries = {self.count}: their gradients have {numbers} numbers, at most {_MOST_NUMBERS} "
                "are compared. Take fewer canaries or a smaller model."
            )
        return torch.stack([self._gradient(i, parameters) for i in range(self.count)])

    def _gradient(self, canary: int, parameters: list[nn.Parameter]) -> Tensor:
        inputs, label = self._canaries.batch(torch.tensor([canary]))
        loss = loss_of(LOSS).per_example(self.model(inputs), label).sum()
        grads = torch.autograd.grad(loss, parameters, materialize_grads=True)
        return torch.cat([grad.flatten() for grad in grads]).double()


def _inverse(gram: Tensor) -> Tensor:
    """Inverse of the canaries' Gram matrix; ConfigError if they cannot be told apart."""
    factor, failed = torch.linalg.cholesky_ex(gram)
    if failed or float(factor.diagonal().min()) < 1e-3:
        raise ConfigError(
            f"canaries = {len(gram)}: their gradients depend on one another, so that no server can tell them "
            "apart. Take fewer canaries."
        )
    return torch.cholesky_inverse(factor)
