"""One training step of each engine: forward, clipped sum, noise, SGD; every part of it is timed.

Gradients are dropped at the end of a step, so that an engine holds little memory while others run.
An engine is a function that sets up for a task and returns its step. Setting up counts towards the
first step: it is where this engine probes the model and Opacus wraps it.
"""

from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from io import StringIO

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from benchmarks.jax_step import jax_step
from benchmarks.models import per_example_losses
from fl_dp.engine.clipping import ClippedSum, clipped_grad_sum
from fl_dp.engine.kernel_choice.chooser import KernelChooser, Mode
from fl_dp.engine.noise.gaussian import NoiseSource, add_gaussian_noise
from fl_dp.engine.one_by_one import OneByOneSum
from fl_dp.engine.probe import probe
from fl_dp.engine.sum_error import most_drawn

MAX_GRAD_NORM, NOISE_MULTIPLIER, LEARNING_RATE = 1.0, 1.0, 0.01

Step = Callable[[], None]


# What `torch.autocast` computes the forward pass in; None is without it.
AUTOCAST: Mapping[str, torch.dtype | None] = {"float32": None, "bf16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class Task:
    """A model and the one batch that all its steps are taken on. autocast_type: a value of `AUTOCAST`."""

    model: nn.Module
    inputs: Tensor
    targets: Tensor
    autocast_type: torch.dtype | None = None

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        """Those that are trained."""
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    def autocast(self) -> torch.autocast:
        enabled = self.autocast_type is not None
        return torch.autocast(self.inputs.device.type, self.autocast_type, enabled=enabled)

    def losses(self, model: nn.Module) -> Tensor:
        """(N,) each example's own loss."""
        with self.autocast():
            return per_example_losses(model(self.inputs), self.targets)

    def optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters.values(), lr=LEARNING_RATE)


def sgd(task: Task) -> Step:
    optimizer = task.optimizer()

    def step() -> None:
        task.losses(task.model).mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def fl_dp(task: Task, mode: Mode = "mixed", float_noise: bool = False, ordered: bool = True) -> Step:
    """ordered: as a client's step; otherwise as one of `PrivacyEngine`."""
    axes = probe(task.model, task.inputs)  # in float32: layers are used alike under autocast
    chooser, most = KernelChooser(mode, ordered=ordered), most_drawn(len(task.targets))

    def clipped() -> ClippedSum:
        return clipped_grad_sum(
            task.losses(task.model),
            task.parameters,
            max_grad_norm=MAX_GRAD_NORM,
            axes=axes,
            chooser=chooser,
            most=most,
            ordered=ordered,
        )

    return _noisy_step(task, clipped, _generator(task) if float_noise else "secure")


def fl_dp_proven(task: Task) -> Step:
    """arithmetic = "proven": an ordinary backward pass for each example."""
    examples = [(x[None], y[None]) for x, y in zip(task.inputs, task.targets, strict=True)]

    def clipped() -> ClippedSum:
        total = OneByOneSum(task.parameters, max_grad_norm=MAX_GRAD_NORM)
        for inputs, targets in examples:
            with task.autocast():
                losses = per_example_losses(task.model(inputs), targets)
            total.add(losses)
        return total.total()

    return _noisy_step(task, clipped, "secure")


def vmap_grad(task: Task) -> Step:
    """torch.func, as PyTorch's own tutorial on per-sample gradients has it."""

    def loss(parameters: Mapping[str, Tensor], example: Tensor, target: Tensor) -> Tensor:
        output = functional_call(task.model, dict(parameters), (example[None],))
        return per_example_losses(output, target[None])[0]

    per_example_grads = vmap(grad(loss), in_dims=(None, 0, 0))

    def clipped() -> ClippedSum:
        parameters = {name: p.detach() for name, p in task.parameters.items()}
        with task.autocast():
            grads = per_example_grads(parameters, task.inputs, task.targets)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in grads.values()]).norm(dim=0)
        factors = (MAX_GRAD_NORM / (norms + 1e-6)).clamp_max(1.0)
        sums = {name: torch.tensordot(factors, g, dims=1) for name, g in grads.items()}
        return ClippedSum(sums, MAX_GRAD_NORM, norms)

    return _noisy_step(task, clipped, _generator(task))


def _generator(task: Task) -> torch.Generator:
    return torch.Generator(task.inputs.device).manual_seed(0)


def _noisy_step(task: Task, clipped: Callable[[], ClippedSum], generator: NoiseSource) -> Step:
    optimizer = task.optimizer()

    def step() -> None:
        noisy = add_gaussian_noise(clipped(), noise_multiplier=NOISE_MULTIPLIER, generator=generator)
        for name, parameter in task.parameters.items():
            parameter.grad = noisy[name].div_(len(task.inputs)).to(parameter.dtype)
        optimizer.step()
        optimizer.zero_grad()

    return step


def opacus_hooks(task: Task) -> Step:
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

    model = GradSampleModule(_channels_first(task.model))
    optimizer = DPOptimizer(task.optimizer(), **_opacus_settings(task))

    def step() -> None:
        task.losses(model).mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)  # Opacus' default keeps them

    return step


def opacus_ghost(task: Task) -> Step:
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping

    model = GradSampleModuleFastGradientClipping(_channels_first(task.model), max_grad_norm=MAX_GRAD_NORM)
    optimizer = DPOptimizerFastGradientClipping(task.optimizer(), **_opacus_settings(task))

    def step() -> None:
        DPTensorFastGradientClipping(model, optimizer, task.losses(model)).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def private_cnn(task: Task) -> Step:
    """private_CNN (Bu, Mao, Xu 2022), mixed ghost clipping; published as the package private_vision."""
    from private_vision import PrivacyEngine

    optimizer = task.optimizer()
    engine = PrivacyEngine(task.model, **_bu_settings(task), mixed=True, record_snr=False)
    engine.attach(optimizer)

    def step() -> None:
        optimizer.step(loss=task.losses(task.model))
        optimizer.zero_grad()

    return step


def fast_dp(task: Task) -> Step:
    """fastDP (Bu et al. 2023), book-keeping with mixed ghost clipping, of one length for all layers."""
    from fastDP import PrivacyEngine

    optimizer = task.optimizer()
    with redirect_stdout(StringIO()):  # it tells what it does
        engine = PrivacyEngine(task.model, **_bu_settings(task), clipping_fn="Abadi")
    engine.attach(optimizer)

    def step() -> None:
        task.losses(task.model).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if left := task.parameters.keys() - {name for name, _ in engine.named_params}:
            raise NotImplementedError(f"it does not train {', '.join(sorted(left))}")

    return step


def jax_privacy(task: Task) -> Step:
    if task.autocast_type is not None:
        raise NotImplementedError("in float32 alone")
    return jax_step(
        task.model,
        task.inputs,
        task.targets,
        max_grad_norm=MAX_GRAD_NORM,
        noise_multiplier=NOISE_MULTIPLIER,
        learning_rate=LEARNING_RATE,
    )[0]


def _bu_settings(task: Task) -> dict[str, float]:
    size = len(task.inputs)
    settings = {"noise_multiplier": NOISE_MULTIPLIER, "max_grad_norm": MAX_GRAD_NORM}
    return {**settings, "batch_size": size, "sample_size": size, "epochs": 1}


def _channels_first(model: nn.Module) -> nn.Module:
    """For Opacus 1.6.0, which gets channels-last convolutions wrong (tests/engine/test_peers.py)."""
    return model.to(memory_format=torch.contiguous_format)


def _opacus_settings(task: Task) -> dict[str, float]:
    return {
        "noise_multiplier": NOISE_MULTIPLIER,
        "max_grad_norm": MAX_GRAD_NORM,
        "expected_batch_size": len(task.inputs),
    }


ENGINES: Mapping[str, Callable[[Task], Step]] = {
    "sgd": sgd,
    "sgd-again": sgd,  # against itself: what the measurement is good for
    "fl-dp-mixed": fl_dp,
    "fl-dp-ghost": partial(fl_dp, mode="ghost"),
    "fl-dp-instantiate": partial(fl_dp, mode="instantiate"),
    "fl-dp-any-order": partial(fl_dp, ordered=False),
    "fl-dp-float-noise": partial(fl_dp, float_noise=True),
    "fl-dp-proven": fl_dp_proven,
    "opacus-hooks": opacus_hooks,
    "opacus-ghost": opacus_ghost,
    "fastdp": fast_dp,
    "private-cnn": private_cnn,
    "jax-privacy": jax_privacy,
    "vmap": vmap_grad,
}

PACKAGES = {
    "opacus-hooks": "opacus",
    "opacus-ghost": "opacus",
    "fastdp": "fastDP",
    "private-cnn": "private_vision",
    "jax-privacy": "jax_privacy",
}


def installed() -> list[str]:
    """The engines whose packages are here."""
    return [engine for engine in ENGINES if engine not in PACKAGES or find_spec(PACKAGES[engine])]
