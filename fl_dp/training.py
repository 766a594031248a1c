"""One client's round: reserve in the ledger, train with DP-SGD, commit, hand over the noised update."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger import Ledger
from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.bookkeeping import Axes
from fl_dp.engine.clipping import ClippedSum, clipped_grad_sum, empty_sum
from fl_dp.engine.noise import add_gaussian_noise, system_generator
from fl_dp.engine.plan import Planner
from fl_dp.engine.probe import probe
from fl_dp.engine.sampling import physical_batches, poisson_draw
from fl_dp.errors import NonFiniteError
from fl_dp.records import Entry, RoundPlan


@dataclass(frozen=True, slots=True)
class LocalUpdate:
    """All that leaves a client after a round; what is not a field here does not leave.

    arrays: trainable parameters after training, by name: noised in every step, so post-processing
    of a differentially private release. spent: what the client's ledger holds, this round
    included; steps: taken in this round; epsilon, delta: the cost of `spent`. All of these follow
    from public numbers alone.
    """

    arrays: Mapping[str, np.ndarray]
    spent: tuple[Entry, ...]
    steps: int
    epsilon: float
    delta: float


def train_locally(
    model: nn.Module,
    data: TensorData,
    plan: RoundPlan,
    ledger: Ledger,
    dataset: str,
    budget: Budget,
    *,
    public_size: int,
    physical_batch_size: int,
    device: torch.device,
) -> LocalUpdate:
    """Take the steps of `plan` that still fit `budget`, and pay for them before the first.

    dataset: the data's name in `ledger`; public_size: declared number of records, which with the
    plan's expected batch size gives the sample rate. `model` is trained in place.
    Raises BudgetExhaustedError when not one step fits, LedgerError when nothing can be paid,
    ModelError when the model cannot be protected; then nothing was trained.
    """
    model.to(device).train()
    axes = probe(model, data.batch(torch.zeros(0, dtype=torch.int64))[0].to(device))
    sample_rate = plan.expected_batch_size / public_size
    reservation = ledger.reserve(
        dataset, plan.run, plan.server_round, (sample_rate, plan.noise_multiplier), plan.steps, budget
    )
    trainer = PrivateTrainer(model, axes, plan, physical_batch_size=physical_batch_size, device=device)
    for _ in range(reservation.entry.steps):
        trainer.step(data, sample_rate)
    ledger.commit(reservation)
    spent = ledger.spent(dataset)
    return LocalUpdate(
        trainable_arrays(model), spent, reservation.entry.steps, budget.epsilon_of(spent), budget.delta
    )


class PrivateTrainer:
    """DP-SGD on one model: every step is one Poisson draw, clipped, summed and noised once."""

    def __init__(
        self,
        model: nn.Module,
        axes: Axes,
        plan: RoundPlan,
        *,
        physical_batch_size: int,
        device: torch.device,
    ) -> None:
        self._model, self._axes, self._plan = model, axes, plan
        self._physical_batch_size, self._device = physical_batch_size, device
        self._parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._optimizer = torch.optim.SGD(
            self._parameters.values(), lr=plan.learning_rate, momentum=plan.momentum
        )
        self._planner = Planner()
        self._noise, self._draws = system_generator(device), system_generator()

    def step(self, data: TensorData, sample_rate: float) -> None:
        """One logical batch. An empty draw is a step too: its sum is zero and its noise is not."""
        clipped = empty_sum(self._parameters, self._plan.max_grad_norm)
        draw = poisson_draw(len(data), sample_rate, self._draws)
        for indices in physical_batches(draw, self._physical_batch_size):
            clipped = clipped + self._clipped_batch(*data.batch(indices))
        noisy = add_gaussian_noise(
            clipped, noise_multiplier=self._plan.noise_multiplier, generator=self._noise
        )
        for name, parameter in self._parameters.items():
            parameter.grad = noisy[name] / self._plan.expected_batch_size
        self._optimizer.step()

    def _clipped_batch(self, inputs: Tensor, labels: Tensor) -> ClippedSum:
        """The clipped sum of one physical batch; one example at a time where one may spoil the others."""
        try:
            return self._clipped(inputs, labels)
        except NonFiniteError:
            pairs = zip(torch.split(inputs, 1), torch.split(labels, 1), strict=True)
            return reduce(add, (self._clipped(*pair) for pair in pairs))

    def _clipped(self, inputs: Tensor, labels: Tensor) -> ClippedSum:
        outputs = self._model(inputs.to(self._device))
        losses = F.cross_entropy(outputs, labels.to(self._device), reduction="none")
        return clipped_grad_sum(
            losses,
            self._parameters,
            max_grad_norm=self._plan.max_grad_norm,
            axes=self._axes,
            planner=self._planner,
        )


def trainable_arrays(model: nn.Module) -> dict[str, np.ndarray]:
    """The trainable parameters by name, as arrays of their own; buffers are not among them."""
    return {
        name: parameter.detach().cpu().numpy().copy()
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }
