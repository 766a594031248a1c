"""One training step of each engine: forward, clipped sum, noise, SGD; every part of it is timed.

An engine is a function that sets up for a task and returns its step. Setting up counts towards the
first step: it is where this engine probes the model and Opacus wraps it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from benchmarks.models import per_example_losses
from fl_dp.engine.clipping import ClippedSum, clipped_grad_sum
from fl_dp.engine.noise import add_gaussian_noise
from fl_dp.engine.plan import Mode, Planner
from fl_dp.engine.probe import probe

MAX_GRAD_NORM, NOISE_MULTIPLIER, LEARNING_RATE = 1.0, 1.0, 0.01

Step = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Task:
    """A model and the one batch that all its steps are taken on."""

    model: nn.Module
    inputs: Tensor
    targets: Tensor

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        return dict(self.model.named_parameters())

    def losses(self, model: nn.Module) -> Tensor:
        return per_example_losses(model(self.inputs), self.targets)

    def optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.model.parameters(), lr=LEARNING_RATE)


def sgd(task: Task) -> Step:
    optimizer = task.optimizer()

    def step() -> None:
        optimizer.zero_grad()
        task.losses(task.model).mean().backward()
        optimizer.step()

    return step


def fl_dp(task: Task, mode: Mode) -> Step:
    axes = probe(task.model, task.inputs)
    planner = Planner(mode)

    def clipped() -> ClippedSum:
        return clipped_grad_sum(
            task.losses(task.model),
            task.parameters,
            max_grad_norm=MAX_GRAD_NORM,
            axes=axes,
            planner=planner,
        )

    return _noisy_step(task, clipped)


def vmap_grad(task: Task) -> Step:
    """torch.func, as PyTorch's own tutorial on per-sample gradients has it."""

    def loss(parameters: Mapping[str, Tensor], example: Tensor, target: Tensor) -> Tensor:
        output = functional_call(task.model, dict(parameters), (example[None],))
        return per_example_losses(output, target[None])[0]

    per_example_grads = vmap(grad(loss), in_dims=(None, 0, 0))

    def clipped() -> ClippedSum:
        parameters = {name: p.detach() for name, p in task.parameters.items()}
        grads = per_example_grads(parameters, task.inputs, task.targets)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in grads.values()]).norm(dim=0)
        factors = (MAX_GRAD_NORM / (norms + 1e-6)).clamp_max(1.0)
        sums = {name: torch.tensordot(factors, g, dims=1) for name, g in grads.items()}
        return ClippedSum(sums, MAX_GRAD_NORM, norms)

    return _noisy_step(task, clipped)


def _noisy_step(task: Task, clipped: Callable[[], ClippedSum]) -> Step:
    optimizer = task.optimizer()
    generator = torch.Generator(task.inputs.device).manual_seed(0)

    def step() -> None:
        noisy = add_gaussian_noise(clipped(), noise_multiplier=NOISE_MULTIPLIER, generator=generator)
        for name, parameter in task.parameters.items():
            parameter.grad = noisy[name] / len(task.inputs)
        optimizer.step()

    return step


def opacus_hooks(task: Task) -> Step:
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

    model = GradSampleModule(task.model)
    optimizer = DPOptimizer(task.optimizer(), **_opacus_settings(task))

    def step() -> None:
        optimizer.zero_grad()
        task.losses(model).mean().backward()
        optimizer.step()

    return step


def opacus_ghost(task: Task) -> Step:
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping

    model = GradSampleModuleFastGradientClipping(task.model, max_grad_norm=MAX_GRAD_NORM)
    optimizer = DPOptimizerFastGradientClipping(task.optimizer(), **_opacus_settings(task))

    def step() -> None:
        optimizer.zero_grad()
        DPTensorFastGradientClipping(model, optimizer, task.losses(model)).backward()
        optimizer.step()

    return step


def _opacus_settings(task: Task) -> dict[str, float]:
    return {
        "noise_multiplier": NOISE_MULTIPLIER,
        "max_grad_norm": MAX_GRAD_NORM,
        "expected_batch_size": len(task.inputs),
    }


ENGINES: Mapping[str, Callable[[Task], Step]] = {
    "sgd": sgd,
    "fl-dp-mixed": partial(fl_dp, mode="mixed"),
    "fl-dp-ghost": partial(fl_dp, mode="ghost"),
    "fl-dp-instantiate": partial(fl_dp, mode="instantiate"),
    "opacus-hooks": opacus_hooks,
    "opacus-ghost": opacus_ghost,
    "vmap": vmap_grad,
}
