"""One client's round: reserve in the ledger, train, commit, hand over the update."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.flat import Auto
from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.probe import probe
from fl_dp.records import Entry, RoundPlan, leaves_because
from fl_dp.training.plain import PlainTrainer
from fl_dp.training.private import PrivateTrainer


@dataclass(frozen=True, slots=True)
class LocalUpdate:
    """All that leaves a client after a round; what is not a field here does not leave.

    arrays: trainable parameters after training, by name. spent: what the client's ledger holds, this
    round included; steps: taken in this round; epsilon, delta: the cost of `spent`, infinite without privacy.
    Hello's answer is a `ClientProfile`, and a round that fails a `Refusal`; there is nothing else.
    """

    arrays: Mapping[str, np.ndarray] = leaves_because(
        "noised in every step, which epsilon pays for; without privacy because its operator allows it"
    )
    spent: tuple[Entry, ...] = leaves_because("from plans, which servers chose, and from public numbers")
    steps: int = leaves_because("from the plan and from what the budget had left")
    epsilon: float = leaves_because("computed from spent")
    delta: float = leaves_because("its operator's choice")


def train_locally(
    model: nn.Module,
    data: TensorData,
    plan: RoundPlan,
    ledger: Ledger,
    dataset: str,
    budget: Budget,
    *,
    public_size: int,
    physical_batch_size: int | Auto,
    memory_mib: int,
    device: torch.device,
) -> LocalUpdate:
    """Take the steps of `plan` that still fit `budget`, and pay for them before the first.

    A plan that is not private is trained with plain SGD, all of it, whatever the budget: the ledger notes
    before that no epsilon holds any more. Whether to accept such a plan is for the caller to decide.

    dataset: the data's name in `ledger`; public_size: declared number of records, which with the
    plan's expected batch size gives the sample rate. physical_batch_size: most examples in memory at
    once, "auto" for what fits `memory_mib` MiB. `model` is trained in place.
    Raises BudgetExhaustedError when not one step fits the budget, LedgerError when nothing can be
    paid, ModelError when the model cannot be protected, ConfigError when not one example fits the
    memory; then nothing was trained.
    """
    trainer = _trainer(model.to(device).train(), data, plan, device)
    if not isinstance(physical_batch_size, int):
        physical_batch_size = trainer.largest_physical_batch(
            data.input_shape, memory_mib * 2**20, trainer.most_at_once
        )
    sample_rate = plan.expected_batch_size / public_size
    mechanism, wall = (sample_rate, plan.noise_multiplier), budget if plan.private else None
    reservation = ledger.reserve(dataset, plan.run, plan.server_round, mechanism, plan.steps, wall)
    for _ in range(reservation.entry.steps):
        trainer.step(data, sample_rate, physical_batch_size)
    ledger.commit(reservation)
    spent = ledger.spent(dataset)
    return LocalUpdate(
        trainable_arrays(model), spent, reservation.entry.steps, budget.epsilon_of(spent), budget.delta
    )


def _trainer(
    model: nn.Module, data: TensorData, plan: RoundPlan, device: torch.device
) -> PrivateTrainer | PlainTrainer:
    if not plan.private:
        return PlainTrainer(model, plan, device=device)
    axes = probe(model, data.batch(torch.zeros(0, dtype=torch.int64))[0].to(device))
    return PrivateTrainer(model, axes, plan, device=device)


def trainable_arrays(model: nn.Module) -> dict[str, np.ndarray]:
    """The trainable parameters by name, as arrays of their own; buffers are not among them."""
    return {
        name: parameter.detach().cpu().numpy().copy()
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }
