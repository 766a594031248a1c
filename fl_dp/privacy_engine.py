"""The familiar surface: attach to an optimizer, then `optimizer.step(loss=losses)` is a private step.

    engine = PrivacyEngine(model, batch_size=256, sample_size=50_000, epochs=3, target_epsilon=3.0)
    engine.attach(optimizer)
    losses = F.cross_entropy(model(x), y, reduction="none")
    optimizer.step(loss=losses)  # no losses.backward()

A thin adapter over `clipped_grad_sum` and `add_gaussian_noise`. The guarantee counts every step as
Poisson-sampled with rate batch_size / sample_size: draw batches with `poisson_draw`.
"""

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fl_dp.accounting.accountants import Accountant, compute_epsilon
from fl_dp.accounting.budget import auto_delta
from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.engine.clipping import Axes, ClippedSum, clipped_grad_sum, empty_sum
from fl_dp.engine.noise import add_gaussian_noise, system_generator
from fl_dp.engine.plan import Mode, Planner
from fl_dp.engine.probe import probe
from fl_dp.errors import ConfigError
from fl_dp.records import Entry


@dataclass(frozen=True, slots=True)
class PrivacySpent:
    """What the steps so far cost; epsilon is infinite where steps were taken without noise."""

    epsilon: float
    delta: float
    steps: int


class PrivacyEngine:
    """Private training of one model with any `torch.optim` optimizer.

    batch_size: expected logical batch, which gradients are divided by. sample_size: number of
    records. Give `noise_multiplier`, or `target_epsilon` and `epochs` to have it calibrated;
    `noise_multiplier=0` is allowed for checks and warns. target_delta: None for the largest power
    of ten below 1 / sample_size, at most 1e-5. ghost_clipping, mixed: ghost norms where they pay
    (True, True), everywhere (True, False), or nowhere (False). named_params: (name, parameter)
    pairs to train, None for all that require gradients. generator: source of the noise, None for
    one from the system's entropy.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        batch_size: int,
        sample_size: int,
        max_grad_norm: float,
        epochs: float | None = None,
        noise_multiplier: float | None = None,
        target_epsilon: float | None = None,
        target_delta: float | None = None,
        ghost_clipping: bool = True,
        mixed: bool = True,
        named_params: Iterable[tuple[str, nn.Parameter]] | None = None,
        accountant: Accountant = "pld",
        generator: torch.Generator | None = None,
    ) -> None:
        if not 1 <= batch_size <= sample_size:
            raise ConfigError(f"Expected 1 <= batch_size={batch_size} <= sample_size={sample_size}.")
        self.module = module
        self.batch_size, self.max_grad_norm = batch_size, max_grad_norm
        self.sample_rate = batch_size / sample_size
        self.target_delta = auto_delta(sample_size) if target_delta is None else target_delta
        self.accountant: Accountant = accountant
        self.noise_multiplier = self._noise_multiplier(noise_multiplier, target_epsilon, epochs)
        named = module.named_parameters() if named_params is None else named_params
        self.parameters = {name: p for name, p in named if p.requires_grad}
        if not self.parameters:
            raise ConfigError("The model has no parameter that requires gradients; nothing can be trained.")
        mode: Mode = "instantiate" if not ghost_clipping else "mixed" if mixed else "ghost"
        self.planner = Planner(mode)
        self.steps = 0
        device = next(iter(self.parameters.values())).device
        self._generator = generator or system_generator(device)
        self._axes: Axes | None = None
        self._inputs: tuple[Tensor, ...] | None = None
        self._pending: ClippedSum | None = None
        self._detach: list[Any] = []

    def _noise_multiplier(
        self, noise_multiplier: float | None, epsilon: float | None, epochs: float | None
    ) -> float:
        if (noise_multiplier is None) == (epsilon is None):
            raise ConfigError(
                "Give noise_multiplier, or target_epsilon and epochs, not both and not neither."
            )
        if noise_multiplier is not None:
            if not 0 <= noise_multiplier < math.inf:
                raise ConfigError(f"Expected noise_multiplier={noise_multiplier} >= 0 and finite.")
            if noise_multiplier == 0:
                warnings.warn("noise_multiplier=0: nothing is protected, epsilon is infinite.", stacklevel=3)
            return noise_multiplier
        if epochs is None or epsilon is None:
            raise ConfigError("target_epsilon needs epochs, to know how many steps there will be.")
        steps = math.ceil(epochs / self.sample_rate)
        return calibrate_noise(
            self.sample_rate, steps, epsilon, self.target_delta, accountant=self.accountant
        )

    def attach(self, optimizer: torch.optim.Optimizer) -> None:
        """Make `optimizer.step(loss=losses)` private and add `optimizer.virtual_step(loss=losses)`.

        Raises ConfigError when the optimizer holds a parameter that this engine does not protect.
        """
        if self._detach:
            raise ConfigError("This engine is attached to an optimizer already; call detach() first.")
        protected = {id(parameter) for parameter in self.parameters.values()}
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.requires_grad and id(parameter) not in protected:
                    raise ConfigError(
                        f"The optimizer trains a parameter of shape {tuple(parameter.shape)} that the "
                        "engine was not given; name it in named_params or take it out of the optimizer."
                    )
        plain_step = optimizer.step

        def step(closure: None = None, *, loss: Tensor) -> None:
            if closure is not None:
                raise ConfigError("A private step takes loss=, the losses per example, and no closure.")
            self._set_grads(loss)
            plain_step()

        optimizer.step = step  # type: ignore[method-assign, assignment]
        optimizer.virtual_step = self._accumulate  # type: ignore[attr-defined]
        hook = self.module.register_forward_pre_hook(self._note_inputs)
        self._detach = [hook.remove, lambda: _restore(optimizer, plain_step)]

    def detach(self) -> None:
        """Give the optimizer its own step back and stop watching the model."""
        for undo in self._detach:
            undo()
        self._detach = []

    def get_privacy_spent(self) -> PrivacySpent:
        """Cost of all steps so far at `target_delta`."""
        if self.steps and self.noise_multiplier == 0:
            return PrivacySpent(math.inf, self.target_delta, self.steps)
        entries = [Entry(self.sample_rate, self.noise_multiplier, self.steps)] if self.steps else []
        epsilon = compute_epsilon(entries, self.target_delta, self.accountant)
        return PrivacySpent(epsilon, self.target_delta, self.steps)

    def _note_inputs(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if self._axes is None:
            self._inputs = inputs

    def _accumulate(self, *, loss: Tensor) -> None:
        """Clip and add up one physical batch of the logical batch that the next step ends."""
        if self._axes is None:
            self._axes = self._checked()
        clipped = clipped_grad_sum(
            loss, self.parameters, max_grad_norm=self.max_grad_norm, axes=self._axes, planner=self.planner
        )
        self._pending = clipped if self._pending is None else self._pending + clipped

    def _checked(self) -> Axes:
        inputs = self._inputs
        if inputs is None or not all(isinstance(tensor, Tensor) for tensor in inputs):
            raise ConfigError(
                "The engine checks the model on its first call: call it with tensors as positional "
                "arguments, after attach()."
            )
        axes = probe(self.module, *inputs)
        self._inputs = None
        return axes

    def _set_grads(self, loss: Tensor) -> None:
        self._accumulate(loss=loss)
        clipped = self._pending or empty_sum(self.parameters, self.max_grad_norm)
        self._pending = None
        grads = clipped.grads
        if self.noise_multiplier > 0:
            grads = add_gaussian_noise(
                clipped, noise_multiplier=self.noise_multiplier, generator=self._generator
            )
        self.steps += 1
        for name, parameter in self.parameters.items():
            parameter.grad = grads[name] / self.batch_size


def _restore(optimizer: torch.optim.Optimizer, step: Any) -> None:
    optimizer.step = step  # type: ignore[method-assign]
    del optimizer.virtual_step  # type: ignore[attr-defined]
