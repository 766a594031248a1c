"""The familiar surface: attach to an optimizer, then `optimizer.step(loss=losses)` is a private step.

    engine = PrivacyEngine(
        model, batch_size=256, sample_size=50_000, epochs=3, max_grad_norm=0.1, target_epsilon=3.0
    )
    engine.attach(optimizer)
    losses = F.cross_entropy(model(x), y, reduction="none")
    optimizer.step(loss=losses)  # no losses.backward()

A thin adapter over `clipped_grad_sum` and `add_gaussian_noise`, with the names of private_CNN (Bu,
Mao, Xu 2022). The guarantee counts every step as Poisson-sampled with rate batch_size /
sample_size: draw batches with `PoissonSampler`.
"""

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

from fl_dp.accounting.accountants import Accountant, compute_epsilon
from fl_dp.accounting.budget import auto_delta
from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.engine.bookkeeping import Axes
from fl_dp.engine.clipping import ClippedSum, clipped_grad_sum, empty_sum
from fl_dp.engine.noise import NoiseSource, add_gaussian_noise, system_generator
from fl_dp.engine.plan import Mode, Planner
from fl_dp.engine.probe import probe
from fl_dp.errors import ConfigError
from fl_dp.records import Entry

# private_CNN's accounting_mode -> accountant, where the one is at least as careful as the other.
_ACCOUNTING_MODES: dict[str, Accountant] = {"rdp": "rdp", "rdp_cks": "rdp", "glw": "pld"}
# Other keywords of private_CNN that cannot be honoured, and why.
_REFUSED = {
    "alphas": "the accountant chooses its own orders",
    "eps_error": "the accountant rounds to the safe side by itself",
    "fp16": "run the model under torch.autocast instead",
    "numerical_stability_constant": "clipping divides safely without one",
}


@dataclass(frozen=True, slots=True)
class PrivacySpent:
    """What a number of steps costs; epsilon is infinite where steps were taken without noise."""

    epsilon: float
    delta: float
    steps: int


class PrivacyEngine:
    """Private training of one model with any `torch.optim` optimizer that takes no closure.

    batch_size: expected logical batch, which gradients are divided by. sample_size: number of
    records. Give `noise_multiplier`, or `target_epsilon` and `epochs` to have it calibrated;
    `noise_multiplier=0` is allowed for checks and warns. target_delta: None for the largest power
    of ten below 1 / sample_size, at most 1e-5. ghost_clipping, mixed: ghost norms where they pay
    (True, True), everywhere (True, False), or nowhere (False). named_params: (name, parameter)
    pairs to train, None for all that require gradients. accountant: "pld" or "rdp"; private_CNN's
    accounting_mode serves as well. record_snr: whether `get_training_stats` tells signal and noise.
    generator: source of the noise, "secure" for a cryptographic one, None for a `torch.Generator`
    from the system's entropy. Raises ConfigError for settings that contradict one another.
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
        accountant: Accountant | None = None,
        accounting_mode: str | None = None,
        record_snr: bool = True,
        generator: NoiseSource | None = None,
        **other: Any,
    ) -> None:
        _refuse_keywords(other)
        if not 1 <= batch_size <= sample_size:
            raise ConfigError(f"Expected 1 <= batch_size={batch_size} <= sample_size={sample_size}.")
        if not 0 < max_grad_norm < math.inf:
            raise ConfigError(f"Expected max_grad_norm={max_grad_norm} > 0 and finite.")
        self.module, self.parameters = module, _trained(module, named_params)
        self.batch_size, self.max_grad_norm = batch_size, max_grad_norm
        self.sample_rate = batch_size / sample_size
        self.target_delta = auto_delta(sample_size) if target_delta is None else target_delta
        self.accountant = _accountant(accountant, accounting_mode)
        if noise_multiplier is None:
            noise_multiplier = self._calibrated(target_epsilon, epochs, -(-sample_size // batch_size))
        elif target_epsilon is not None:
            raise ConfigError("Give noise_multiplier, or target_epsilon and epochs, not both.")
        self.noise_multiplier = _checked_noise(noise_multiplier)
        mode: Mode = "instantiate" if not ghost_clipping else "mixed" if mixed else "ghost"
        self.planner = Planner(mode)
        self.steps = 0
        self.record_snr = record_snr
        device = next(iter(self.parameters.values())).device
        self._generator: NoiseSource = system_generator(device) if generator is None else generator
        self._locked = False
        self._axes: Axes | None = None
        self._inputs: tuple[tuple[Any, ...], dict[str, Any]] | None = None  # until the first step
        self._pending: ClippedSum | None = None
        self._stats: dict[str, Tensor] = {}
        self._optimizer: torch.optim.Optimizer | None = None
        self._hooks: list[Any] = []

    def _calibrated(self, epsilon: float | None, epochs: float | None, steps_per_epoch: int) -> float:
        if epsilon is None:
            raise ConfigError("Give noise_multiplier, or target_epsilon and epochs, not neither.")
        if epochs is None:
            raise ConfigError("target_epsilon needs epochs, to know how many steps there will be.")
        if not 0 < epochs < math.inf:
            raise ConfigError(f"Expected epochs={epochs} > 0 and finite.")
        steps = math.ceil(epochs * steps_per_epoch)
        return calibrate_noise(
            self.sample_rate, steps, epsilon, self.target_delta, accountant=self.accountant
        )

    def attach(self, optimizer: torch.optim.Optimizer) -> None:
        """Make `optimizer.step(loss=losses)` private and add `optimizer.virtual_step(loss=losses)`.

        losses: (N,), one per example. `step(loss=None)` ends a logical batch with what the virtual
        steps gathered, which may be nothing: an empty Poisson draw. `.grad` is overwritten in each
        step; `zero_grad` is not needed, and leaves alone what virtual steps gathered.
        Learning rate schedulers may be made before or after. The optimizer also gets
        `get_privacy_spent` and `get_training_stats`.

        Raises ConfigError when the optimizer holds a parameter that this engine does not protect.
        """
        if self._optimizer is not None:
            raise ConfigError("This engine is attached to an optimizer already; call detach() first.")
        if hasattr(optimizer, "privacy_engine"):
            raise ConfigError("Another engine is attached to this optimizer; call its detach() first.")
        if isinstance(optimizer, torch.optim.LBFGS):
            raise ConfigError("LBFGS computes several gradients in one step; use another optimizer.")
        self._check_parameters(optimizer)
        self._optimizer = optimizer
        for name, value in self._added_to_optimizer().items():
            setattr(optimizer, name, value)
        self._hooks = [
            optimizer.register_step_pre_hook(self._before_step),
            self.module.register_forward_pre_hook(self._note_inputs, with_kwargs=True),
        ]

    def _added_to_optimizer(self) -> dict[str, Any]:
        return {
            "privacy_engine": self,
            "virtual_step": self._virtual_step,
            "get_privacy_spent": self.get_privacy_spent,
            "get_training_stats": self.get_training_stats,
        }

    def detach(self) -> None:
        """Give the optimizer its own step back, stop watching the model, drop what virtual steps gathered."""
        if self._optimizer is None:
            return
        for name in self._added_to_optimizer():
            delattr(self._optimizer, name)
        for hook in self._hooks:
            hook.remove()
        self._optimizer, self._hooks, self._pending = None, [], None

    def lock(self) -> None:
        """Refuse all steps, virtual ones too, until `unlock`: no data are touched meanwhile."""
        self._locked = True

    def unlock(self) -> None:
        """Allow steps again."""
        self._locked = False

    def get_privacy_spent(self, *, steps: int | None = None) -> PrivacySpent:
        """Cost at `target_delta` of `steps` steps, of all so far when None."""
        steps = self.steps if steps is None else steps
        if steps and self.noise_multiplier == 0:
            return PrivacySpent(math.inf, self.target_delta, steps)
        entries = [Entry(self.sample_rate, self.noise_multiplier, steps)] if steps else []
        epsilon = compute_epsilon(entries, self.target_delta, self.accountant)
        return PrivacySpent(epsilon, self.target_delta, steps)

    def get_training_stats(self) -> dict[str, float | None]:
        """About the last step, from raw data: not private, for the eyes of the data's owner only.

        med_clip, max_clip, min_clip: over its examples, min(1, C / norm), 0 for a norm that is not
        finite. signal, noise: lengths of the clipped sum and of the noise; snr: their ratio;
        noise_limit: the noise's expected length. None before the first step, for clips of an empty
        batch, for snr and noise_limit without noise, and for signal, noise and snr under
        record_snr=False.
        """
        stats: dict[str, float | None] = dict.fromkeys(
            ("med_clip", "max_clip", "min_clip", "snr", "signal", "noise", "noise_limit")
        )
        if self._stats and len(norms := self._stats["norms"]):
            factors = (self.max_grad_norm / norms).clamp_max(1.0).where(norms.isfinite(), 0.0)
            stats["med_clip"] = float(factors.median())
            stats["max_clip"], stats["min_clip"] = float(factors.max()), float(factors.min())
        if self._stats and self.noise_multiplier:
            size = sum(parameter.numel() for parameter in self.parameters.values())
            stats["noise_limit"] = math.sqrt(size) * self.noise_multiplier * self.max_grad_norm
        stats.update({name: float(self._stats[name]) for name in ("signal", "noise") if name in self._stats})
        if stats["signal"] is not None and stats["noise"]:
            stats["snr"] = stats["signal"] / stats["noise"]
        return stats

    def state_dict(self) -> dict[str, Any]:
        """All that `load_state_dict` needs for training to go on with the same noise.

        Beside it save the optimizer, the model and the sampler. What virtual steps gathered is in it
        without noise, and the generator's state tells all noise, past and future: as secret as the
        data. "secure" noise has no state, and is never the same.
        """
        generator, pending = self._generator, self._pending
        return {
            "settings": self._settings(),
            "steps": self.steps,
            "generator": generator.get_state() if isinstance(generator, torch.Generator) else None,
            "pending": None if pending is None else _sum_state(pending),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where the engine of `state` was.

        Raises ConfigError when that engine had other settings: its steps would be priced wrongly.
        """
        if state["settings"] != self._settings():
            raise ConfigError(f"The saved engine had {state['settings']}, this one has {self._settings()}.")
        self.steps = state["steps"]
        if isinstance(self._generator, torch.Generator):
            self._generator.set_state(state["generator"].cpu())
        pending = state["pending"]
        self._pending = None if pending is None else _sum_from(pending, self.parameters)

    def _settings(self) -> dict[str, float | str]:
        """What prices a step, and where its noise comes from."""
        generator = self._generator
        return {
            "sample_rate": self.sample_rate,
            "noise_multiplier": self.noise_multiplier,
            "max_grad_norm": self.max_grad_norm,
            "generator": generator.device.type if isinstance(generator, torch.Generator) else generator,
        }

    def _check_parameters(self, optimizer: torch.optim.Optimizer) -> None:
        """Whatever the optimizer would move must get its gradient from this engine, and not noise alone."""
        for name, parameter in self.parameters.items():
            if not parameter.requires_grad:
                raise ConfigError(
                    f"{name} was frozen after the engine was made and would get noise alone; "
                    "make a new engine."
                )
        protected = {id(parameter) for parameter in self.parameters.values()}
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                moves = parameter.requires_grad or parameter.grad is not None
                if moves and id(parameter) not in protected:
                    raise ConfigError(
                        f"The optimizer trains a parameter of shape {tuple(parameter.shape)} that the "
                        "engine was not given; name it in named_params or take it out of the optimizer."
                    )

    def _note_inputs(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._axes is None:
            self._inputs = args, kwargs

    def _before_step(
        self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """PyTorch calls this with the arguments of `step`; what is returned the optimizer's own step gets."""
        if "loss" not in kwargs:
            raise TypeError(
                "A private step needs loss=, the losses per example, or loss=None to end a batch."
            )
        other = [name for name in kwargs if name != "loss"]
        if other or len(args) > 1:
            name = other[0] if other else "closure"
            raise TypeError(f"A private step takes loss= and nothing else, got {name!r}.")
        self._check_parameters(optimizer)
        if kwargs["loss"] is not None:
            self._virtual_step(loss=kwargs["loss"])
        self._set_grads()
        return args, {}

    def _virtual_step(self, *, loss: Tensor) -> None:
        """Clip and add up one physical batch of the logical batch that the next step ends."""
        self._check_unlocked()
        if self._axes is None:
            self._axes = self._probed()
        clipped = clipped_grad_sum(
            loss, self.parameters, max_grad_norm=self.max_grad_norm, axes=self._axes, planner=self.planner
        )
        self._pending = clipped if self._pending is None else self._pending + clipped

    def _check_unlocked(self) -> None:
        if self._locked:
            raise ConfigError("The engine is locked; call unlock() before the next step.")

    def _probed(self) -> Axes:
        args, kwargs = self._inputs or ((), {})
        if kwargs or not args or not all(isinstance(tensor, Tensor) for tensor in args):
            found = ", ".join([type(arg).__name__ for arg in args] + [f"{name}=" for name in kwargs])
            raise ConfigError(
                "The engine checks the model on inputs like those of its first call after attach(), which "
                f"must be tensors given by position; found ({found}). Wrap the model in a module that "
                "takes them so."
            )
        axes = probe(self.module, *args)
        self._inputs = None
        return axes

    def _set_grads(self) -> None:
        """The noisy mean gradient of all that is pending; from here on the step counts."""
        self._check_unlocked()
        clipped = self._pending or empty_sum(self.parameters, self.max_grad_norm)
        self._pending = None
        self.steps += 1
        noisy = clipped.grads
        if self.noise_multiplier > 0:
            noisy = add_gaussian_noise(
                clipped, noise_multiplier=self.noise_multiplier, generator=self._generator
            )
        self._stats = {"norms": clipped.norms}
        if self.record_snr:
            self._stats["signal"] = _length(clipped.grads.values())
            self._stats["noise"] = _length(noisy[name] - grad for name, grad in clipped.grads.items())
        for name, parameter in self.parameters.items():
            parameter.grad = (noisy[name] / self.batch_size).to(parameter.dtype)


def _refuse_keywords(other: Mapping[str, Any]) -> None:
    for name, value in other.items():
        if name not in _REFUSED:
            raise TypeError(f"PrivacyEngine got an unexpected keyword argument {name!r}.")
        if value is not False:  # fp16=False asks for nothing
            raise ConfigError(f"{name}={value!r} cannot be honoured: {_REFUSED[name]}; leave it out.")


def _accountant(accountant: Accountant | None, accounting_mode: str | None) -> Accountant:
    if accounting_mode is None:
        return accountant or "pld"
    if accountant is not None:
        raise ConfigError("Give accountant or accounting_mode, not both.")
    if accounting_mode not in _ACCOUNTING_MODES:
        raise ConfigError(
            f"accounting_mode={accounting_mode!r}: expected one of {', '.join(_ACCOUNTING_MODES)}; "
            "'gdp' can report less than what is spent, and a budget needs one number, not 'all'."
        )
    return _ACCOUNTING_MODES[accounting_mode]


def _checked_noise(noise_multiplier: float) -> float:
    if not 0 <= noise_multiplier < math.inf:
        raise ConfigError(f"Expected noise_multiplier={noise_multiplier} >= 0 and finite.")
    if noise_multiplier == 0:
        warnings.warn("noise_multiplier=0: nothing is protected, epsilon is infinite.", stacklevel=3)
    return noise_multiplier


def _trained(
    module: nn.Module, named_params: Iterable[tuple[str, nn.Parameter]] | None
) -> dict[str, nn.Parameter]:
    """Parameters to train, by the names that `module` gives them, whatever `named_params` calls them."""
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
    if named_params is not None:
        asked = {id(p): name for name, p in named_params}
        of_module = {id(p) for p in module.parameters()}
        for identity, name in asked.items():
            if identity not in of_module:
                raise ConfigError(f"named_params: {name} is not a parameter of the model.")
        trained = {name: p for name, p in trained.items() if id(p) in asked}
    if not trained:
        raise ConfigError("The model has no parameter that requires gradients; nothing can be trained.")
    return trained


def _length(tensors: Iterable[Tensor]) -> Tensor:
    """Euclidean length of all together, left on the device: reading it would make a GPU wait."""
    return nn.utils.get_total_norm([torch.linalg.vector_norm(tensor) for tensor in tensors])


def _sum_state(clipped: ClippedSum) -> dict[str, Any]:
    state = {field.name: getattr(clipped, field.name) for field in fields(clipped)}
    return {**state, "grads": dict(clipped.grads)}


def _sum_from(state: Mapping[str, Any], parameters: Mapping[str, Tensor]) -> ClippedSum:
    """Back on the devices of the parameters, wherever the checkpoint was loaded."""
    grads = {name: state["grads"][name].to(parameter.device) for name, parameter in parameters.items()}
    device = next(iter(grads.values())).device
    return ClippedSum(**{**state, "grads": grads, "norms": state["norms"].to(device)})
