"""By how much one record moves the clipped sum of a logical batch, through the trainer that is shipped."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from objectives import objective_for
from torch import Tensor, nn

from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.probe import probe
from fl_dp.engine.sum_error import most_drawn, sum_error
from fl_dp.form import Form
from fl_dp.records import RoundPlan
from fl_dp.training.losses import Loss
from fl_dp.training.objective import Objective
from fl_dp.training.private import PrivateTrainer


def _softplus(outputs: Tensor, labels: Tensor) -> Tensor:
    return F.softplus(outputs[:, 0] * (1 - 2 * labels))


SEEN = sum_error(most_drawn(64))  # what may be seen with `trainer_for`

# Of a model with one output, whose cross-entropy would be zero.
LOGISTIC = Loss(
    per_example=_softplus,
    targets=("class",),
)


@dataclass(frozen=True)
class Moved:
    """In units of the clipping bound: excess over 1 of how far the sum moved, and how far it is from the sum
    without the record plus the record's own clipped gradient."""

    excess: float
    error: float


# And with proven arithmetic, for 10^3 records: N^2 2^-52.
PROVEN_SEEN = 2.0**-32


def trainer_for(
    model: nn.Module,
    like: Tensor,
    *,
    batch: int = 64,
    bound: float = 1.0,
    loss: Loss | None = None,
    arithmetic: str = "steady-rows",
) -> PrivateTrainer:
    """like: some examples. batch: expected records of a step."""
    plan = RoundPlan("run", 1, "of the attack", 1, batch, 0.5, 0.0, 1.0, bound, arithmetic=arithmetic)
    objective = objective_for(Form(tuple(like.shape[1:]), 10))
    if loss is not None:
        objective = Objective(
            lambda model, batch: loss.per_example(model(batch[0]), batch[1]), objective.form
        )
    return PrivateTrainer(model, probe(model, like), plan, objective, device=torch.device("cpu"))


def moved(trainer: PrivateTrainer, data: TensorData, place: int, rows: int) -> Moved:
    """What the record at `place` moves the sum of all of `data` by, in passes of `rows` rows."""
    everyone = torch.arange(len(data))
    others = torch.cat([everyone[:place], everyone[place + 1 :]])
    with_it, without, own = (
        _flat(trainer._clipped_sum(data, indices, rows).grads)
        for indices in (everyone, others, everyone[place : place + 1])
    )
    bound = trainer.plan.max_grad_norm
    change = with_it - without
    return Moved(float(change.norm()) / bound - 1, float((change - own).norm()) / bound)


def _flat(grads: Mapping[str, Tensor]) -> Tensor:
    return torch.cat([grad.double().flatten() for grad in grads.values()])
