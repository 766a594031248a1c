"""A trainer of one client and the plan that it follows, for tests of what trainers do."""

from typing import Any

import torch
from objectives import objective_for
from torch import nn

from fl_dp.engine.noise.randomness import Randomness
from fl_dp.records import RoundPlan
from fl_dp.training.examples import axes_of
from fl_dp.training.objective import Objective
from fl_dp.training.trainer import trainer_of

CPU = torch.device("cpu")


def plan_of(**changes: Any) -> RoundPlan:
    """One step on 20 expected records, with a noise multiplier and a bound of 1; `changes` to it."""
    usual = {
        "run": "run",
        "server_round": 1,
        "model": "linear",
        "steps": 1,
        "expected_batch_size": 20,
        "learning_rate": 0.5,
        "momentum": 0.0,
        "noise_multiplier": 1.0,
        "max_grad_norm": 1.0,
    }
    return RoundPlan(**{**usual, **changes})


def trainer_for(
    model: nn.Module, like: Any, plan: RoundPlan, *, key: bytes | None = None, **options: Any
) -> Any:
    """like: an objective, or data or a form, of which it is the usual one. key: of all that is drawn."""
    objective = like if isinstance(like, Objective) else objective_for(getattr(like, "form", like))
    axes = axes_of(model, objective, CPU) if plan.private else None
    source = None if key is None else Randomness(key)
    return trainer_of(model, plan, objective, CPU, axes, randomness=source, **options)
