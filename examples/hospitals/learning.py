"""One model from several hospitals' records, in full batches: averaged updates, or sums of gradients.

The trainer is the one that clients use. No message, no ledger and no masks, and noise from seeds, as the
records are public.
"""

from collections.abc import Mapping, Sequence

import torch
from task import Hospitals
from torch import nn

from fl_dp.config.run import RunConfig
from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.backward import Axes
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.federation.secure_sum.limits import checked_shares
from fl_dp.federation.secure_sum.vector import grid_of
from fl_dp.federation.server.optimizer import server_optimizer_of
from fl_dp.federation.wire.arrays import NDArray
from fl_dp.records import RoundPlan
from fl_dp.tasks.load import new_model
from fl_dp.training.examples import axes_of
from fl_dp.training.trainer import take_steps, trainable, trainer_of, update_of

DEVICE = torch.device("cpu")


def learn(sites: Sequence[TensorData], config: RunConfig, noise: float, seed: int) -> nn.Module:
    """Federated averaging among `sites`, each of which adds all the noise.

    noise: its multiplier; 0: without privacy.
    """
    model, task = _model_of(sites, config)
    axes = axes_of(model, task.objective, DEVICE)
    total = sum(map(len, sites))
    optimizer = server_optimizer_of(config.server_optimizer)
    for number in range(1, config.rounds + 1):
        start = _copied(model)
        mean = {name: torch.zeros_like(tensor) for name, tensor in start.items()}
        for site, data in enumerate(sites):
            model.load_state_dict(start)
            plan = _plan(config, len(data), noise, number)
            for name, tensor in _given(model, task, axes, plan, data, (seed, number, site)).items():
                mean[name] += tensor * (len(data) / total)
        _load(model, optimizer.step(_numbers_of(start), _numbers_of(mean)))
    return model


def learn_in_sums(sites: Sequence[TensorData], config: RunConfig, noise: float, seed: int) -> nn.Module:
    """Federated gradient descent: each hospital's sum of clipped gradients bears a share of the noise.

    What is seen is the sum of all, whose noise is at least that of `noise`, its multiplier. The server then
    takes the step, as `SecureAggregator` does: rate * sum / records.
    """
    model, task = _model_of(sites, config)
    axes = axes_of(model, task.objective, DEVICE)
    shares = checked_shares(len(sites), config.secure_dropouts, config.secure_colluders)
    numbers = sum(tensor.numel() for tensor in trainable(model).values())
    spacing = grid_of(config.max_grad_norm, noise, shares, numbers).spacing
    step = config.learning_rate * spacing / sum(map(len, sites))
    optimizer = server_optimizer_of(config.server_optimizer)
    for number in range(1, config.rounds + 1):
        total = {
            name: torch.zeros_like(tensor, dtype=torch.int64) for name, tensor in trainable(model).items()
        }
        for site, data in enumerate(sites):
            plan = _plan(config, len(data), noise, number, shares)
            for name, share in _given(model, task, axes, plan, data, (seed, number, site)).items():
                total[name] += share
        start = _numbers_of(_copied(model))
        _load(
            model,
            optimizer.step(start, {name: start[name] - step * one.numpy() for name, one in total.items()}),
        )
    return model


def _model_of(sites: Sequence[TensorData], config: RunConfig) -> tuple[nn.Module, Hospitals]:
    task = Hospitals(config)
    task.form = sites[0].form
    return new_model(task), task


def _given(
    model: nn.Module, task: Hospitals, axes: Axes, plan: RoundPlan, data: TensorData, key: tuple[int, ...]
) -> dict[str, torch.Tensor]:
    """What a hospital gives for one step on all its records: its weights, or its integers of a sum."""
    randomness = Randomness(bytes(32)).child(*key)
    trainer = trainer_of(model, plan, task.objective, DEVICE, axes, randomness=randomness)
    take_steps(trainer, data, plan.steps, 1.0, plan.expected_batch_size)
    found = update_of(trainer)
    assert found is not None  # weights that are not finite
    return found


def _copied(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def _numbers_of(tensors: Mapping[str, torch.Tensor]) -> dict[str, NDArray]:
    return {name: tensor.numpy() for name, tensor in tensors.items()}


def _load(model: nn.Module, arrays: Mapping[str, NDArray]) -> None:
    model.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})


def _plan(config: RunConfig, records: int, noise: float, number: int, shares: int = 0) -> RoundPlan:
    return RoundPlan(
        run="measured",
        server_round=number,
        model=config.model,
        steps=1,
        expected_batch_size=records,
        learning_rate=config.learning_rate,
        momentum=config.momentum,
        noise_multiplier=noise,
        max_grad_norm=config.max_grad_norm,
        private=noise > 0,
        shares=shares,
    )
