"""By how much one record moves the clipped sum of a logical batch, through the trainer that is shipped."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
import trainers
from definition import clipped_by_engine
from torch import Tensor, nn

from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.sum_error import most_drawn, sum_error
from fl_dp.form import Form
from fl_dp.training.objective import Objective
from fl_dp.training.private import PrivateTrainer


def logistic(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """The losses of a model with one output, whose cross-entropy would be zero."""
    return F.softplus(model(batch[0])[:, 0] * (1 - 2 * batch[1]))


SEEN = sum_error(most_drawn(64))  # what may be seen with `trainer_for`
PROVEN_SEEN = 2.0**-32  # and with proven arithmetic, for 10^3 records: N^2 2^-52


@dataclass(frozen=True)
class Moved:
    """In units of the clipping bound: excess over 1 of how far the sum moved, and how far it is from the sum
    without the record plus the record's own clipped gradient."""

    excess: float
    error: float


def trainer_for(
    model: nn.Module,
    shape: tuple[int, ...],
    outputs: int = 10,
    *,
    batch: int = 64,
    arithmetic: str = "steady-rows",
) -> PrivateTrainer:
    """shape: of an example. batch: expected records of a step. With one output the losses are `logistic`."""
    plan = trainers.plan_of(expected_batch_size=batch, arithmetic=arithmetic)
    form = Form(shape, max(2, outputs))
    return trainers.trainer_for(model, Objective(logistic, form) if outputs == 1 else form, plan)


class Positions(nn.Module):
    """A linear layer at each of some positions, and one over all of them: sums that may cancel."""

    def __init__(self, positions: int = 16) -> None:
        super().__init__()
        self.positions = positions
        self.inner, self.outer = nn.Linear(8, 16), nn.Linear(16 * positions, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(torch.tanh(self.inner(x.view(len(x), self.positions, 8))).flatten(1))


def moved(trainer: PrivateTrainer, data: TensorData, place: int, rows: int) -> Moved:
    """What the record at `place` moves the sum of all of `data` by, in passes of `rows` rows."""
    everyone = torch.arange(len(data))
    others = torch.cat([everyone[:place], everyone[place + 1 :]])
    with_it, without, own = (
        flat(trainer._clipped_sum(data, indices, rows).grads)
        for indices in (everyone, others, everyone[place : place + 1])
    )
    bound = trainer.plan.max_grad_norm
    change = with_it - without
    return Moved(float(change.norm()) / bound - 1, float((change - own).norm()) / bound)


def flat(grads: Mapping[str, Tensor]) -> Tensor:
    return torch.cat([grad.double().flatten() for grad in grads.values()])


def moved_by_alice(model: nn.Module, known: Tensor, alice: Tensor) -> float:
    """By how many bounds her record, in front, moves the clipped sum of a model with one output."""
    without, with_her = (
        clipped_by_engine(model, batch, 1.0, loss=lambda m, x: m(x)[:, 0]).grads
        for batch in (known, torch.cat([alice, known]))
    )
    return float((flat(with_her) - flat(without)).norm())
