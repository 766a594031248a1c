"""Norms of gradients of made-up records at a run's first weights: how small is small for a clipping bound."""

import torch

from fl_dp.config.run import RunConfig
from fl_dp.engine.clipping import clipped_grad_sum
from fl_dp.errors import ConfigError
from fl_dp.models.start import load_start
from fl_dp.tasks.load import in_task_code, new_model, task_of
from fl_dp.training.examples import axes_of

RECORDS = 64


def made_up_norms(config: RunConfig) -> list[float]:
    """Lengths of the gradients of RECORDS examples of random numbers, of the data's form and unit.

    Always the same ones for a form, a model and a seed. ConfigError where one is not finite, or zero.
    """
    task = task_of(config)
    model = new_model(task)
    load_start(model, config.start)
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    with torch.random.fork_rng(devices=[]), in_task_code(type(task), "a pass of random numbers"):
        torch.default_generator.manual_seed(config.seed)
        objective = task.objective
        axes = axes_of(model, objective, torch.device("cpu"))
        losses = objective.losses(model, objective.blank(RECORDS))
        norms = clipped_grad_sum(losses, parameters, max_grad_norm=1.0, axes=axes).norms.double()
    if not bool(torch.isfinite(norms).all()) or float(norms.median()) == 0:
        raise ConfigError(
            "max-grad-norm: no bound follows from random records: their gradients at the first weights are "
            "zero or not finite; look at the model's first weights, or set the bound by hand."
        )
    return [float(norm) for norm in norms]
