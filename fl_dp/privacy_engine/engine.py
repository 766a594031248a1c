"""The familiar surface: attach to an optimizer, then `optimizer.step(loss=losses)` is a private step.

    engine = PrivacyEngine(
        model, batch_size=256, sample_size=50_000, epochs=3, max_grad_norm=0.1, target_epsilon=3.0
    )
    engine.attach(optimizer)
    losses = F.cross_entropy(model(x), y, reduction="none")
    optimizer.step(loss=losses)  # no losses.backward()

A thin adapter over `clipped_grad_sum` and `add_gaussian_noise`, with the names of private_CNN (Bu,
Mao, Xu 2022). The guarantee assumes that every batch is Poisson-sampled with rate batch_size /
sample_size: draw batches with `PoissonSampler`.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fl_dp.accounting.budget import auto_delta
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.engine.backward import Axes
from fl_dp.engine.bounds import Bounds, grouped, sensitivity
from fl_dp.engine.clip_functions import ClipFunction, clip_function
from fl_dp.engine.clipping import ClippedSum, clipped_grad_sum, empty_sum
from fl_dp.engine.kernel_choice.chooser import KernelChooser, Mode
from fl_dp.engine.kernel_choice.physical_batch import largest_batch, with_examples
from fl_dp.engine.kernel_choice.table import kernel_table
from fl_dp.engine.noise.gaussian import NoiseSource, add_gaussian_noise
from fl_dp.engine.probe import probe
from fl_dp.engine.sampling import PoissonSampler
from fl_dp.errors import ConfigError
from fl_dp.privacy_engine.settings import (
    ClippingStyle,
    check_optimizer,
    chosen_accountant,
    chosen_bounds,
    chosen_noise,
    refuse_keywords,
    trained_parameters,
)
from fl_dp.privacy_engine.stats import NAMES, TrainingStats
from fl_dp.records import Entry


@dataclass(frozen=True, slots=True)
class PrivacySpent:
    """What a number of steps costs; epsilon is infinite for steps without noise."""

    epsilon: float
    delta: float
    steps: int


class PrivacyEngine:
    """Private training of one model with any `torch.optim` optimizer that takes no closure.

    batch_size: expected size of a logical batch; gradients are divided by it. sample_size: number of
    records. Give `noise_multiplier`, or `target_epsilon` and `epochs` to have it calibrated.
    `noise_multiplier=0` is allowed for checks, with a warning. target_delta: None for the largest power
    of ten below 1 / sample_size, at most 1e-5. ghost_clipping, mixed: ghost norms where they pay
    (True, True), everywhere (True, False), or nowhere (False). kernels: parameter name -> kernel, for
    parameters whose kernel is fixed (see `kernel_table`). named_params: (name, parameter) pairs to train;
    None for all that require gradients.

    max_grad_norm: clipping bound; a mapping gives one for each group of parameters (see
    `engine.bounds.grouped`). clipping: "abadi", "automatic", "psac", or made by `clip_function`.
    clipping_style: "all-layer" for one norm over all parameters, "layer-wise" or "param-wise" to split
    the bound equally over modules or parameters. Noise is scaled to `sensitivity`: max_grad_norm, or with
    several bounds the root of the sum of their squares.

    accountant: one that may hold a budget, such as "pld" or "rdp"; private_CNN's accounting_mode serves as
    well. record_snr: whether `get_training_stats` reports signal and noise. generator: source of the noise,
    "secure" for a cryptographic one, None for a `torch.Generator` from the system's entropy.
    Raises ConfigError for settings that contradict one another.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        batch_size: int,
        sample_size: int,
        max_grad_norm: Bounds,
        epochs: float | None = None,
        noise_multiplier: float | None = None,
        target_epsilon: float | None = None,
        target_delta: float | None = None,
        ghost_clipping: bool = True,
        mixed: bool = True,
        kernels: Mapping[str, str] | None = None,
        clipping: ClipFunction | str = "abadi",
        clipping_style: ClippingStyle = "all-layer",
        named_params: Iterable[tuple[str, nn.Parameter]] | None = None,
        accountant: str | None = None,
        accounting_mode: str | None = None,
        record_snr: bool = True,
        generator: NoiseSource | None = None,
        **other: Any,
    ) -> None:
        refuse_keywords(other)
        if not 1 <= batch_size <= sample_size:
            raise ConfigError(f"Expected 1 <= batch_size={batch_size} <= sample_size={sample_size}.")
        self.module, self.parameters = module, trained_parameters(module, named_params)
        self.max_grad_norm = chosen_bounds(max_grad_norm, clipping_style, self.parameters)
        self._groups = grouped(self.max_grad_norm, self.parameters)
        self.sensitivity = sensitivity(self._groups)
        self.clipping = clip_function(clipping) if isinstance(clipping, str) else clipping
        self.batch_size, self.sample_rate = batch_size, batch_size / sample_size
        self.target_delta = auto_delta(sample_size) if target_delta is None else target_delta
        self.accountant = chosen_accountant(accountant, accounting_mode)
        self.noise_multiplier = chosen_noise(
            noise_multiplier,
            target_epsilon,
            epochs,
            batch_size=batch_size,
            sample_size=sample_size,
            delta=self.target_delta,
            accountant=self.accountant,
        )
        mode: Mode = "instantiate" if not ghost_clipping else "mixed" if mixed else "ghost"
        self.chooser = KernelChooser(mode, fixed=_checked_kernels(kernels or {}, self.parameters))
        self.steps = 0
        self.record_snr = record_snr
        self._generator: NoiseSource = "secure" if generator is None else generator
        self._locked = False
        # Which modules were in training mode at the last call: batch norm mixes examples only in that mode.
        self._training: tuple[bool, ...] = ()
        self._axes: dict[tuple[bool, ...], Axes] = {}
        # What the model was called with, if it was not checked in that mode yet.
        self._inputs: tuple[tuple[Any, ...], dict[str, Any]] | None = None
        self._pending: ClippedSum | None = None
        self._stats: TrainingStats | None = None
        self._optimizer: torch.optim.Optimizer | None = None
        self._hooks: list[Any] = []

    def attach(self, optimizer: torch.optim.Optimizer, *, sampler: PoissonSampler | None = None) -> None:
        """Make `optimizer.step(loss=losses)` private and add `optimizer.virtual_step(loss=losses)`.

        losses: (N,), one per example. `step(loss=None)` ends a logical batch with what the virtual steps
        gathered; after an empty Poisson draw that is nothing. Each step overwrites `.grad`. `zero_grad` is
        not needed, and does not change what virtual steps gathered.
        Learning rate schedulers may be made before or after. The optimizer also gets
        `get_privacy_spent` and `get_training_stats`.

        sampler: draws the batches; give it to have its sample rate checked. Raises ConfigError when it
        draws at another rate than the one by which steps are priced, and when the optimizer holds a
        parameter that this engine does not protect.
        """
        if self._optimizer is not None:
            raise ConfigError("This engine is attached to an optimizer already; call detach() first.")
        if hasattr(optimizer, "privacy_engine"):
            raise ConfigError("Another engine is attached to this optimizer; call its detach() first.")
        if isinstance(optimizer, torch.optim.LBFGS):
            raise ConfigError("LBFGS computes several gradients in one step; use another optimizer.")
        if sampler is not None and sampler.sample_rate != self.sample_rate:
            raise ConfigError(
                f"The sampler draws at rate {sampler.sample_rate}, the engine prices steps at "
                f"{self.sample_rate}; give both the same batch and data set size."
            )
        check_optimizer(optimizer, self.parameters)
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
        """Give the optimizer its own step back, remove the hooks, drop what virtual steps gathered."""
        if self._optimizer is None:
            return
        for name in self._added_to_optimizer():
            delattr(self._optimizer, name)
        for hook in self._hooks:
            hook.remove()
        self._optimizer, self._hooks, self._pending = None, [], None

    def lock(self) -> None:
        """Refuse all steps, including virtual ones, until `unlock`: until then no data are touched."""
        self._locked = True

    def unlock(self) -> None:
        """Allow steps again."""
        self._locked = False

    def get_privacy_spent(self, *, steps: int | None = None) -> PrivacySpent:
        """Cost at `target_delta` of `steps` steps; None for all steps so far."""
        steps = self.steps if steps is None else steps
        if steps and self.noise_multiplier == 0:
            return PrivacySpent(math.inf, self.target_delta, steps)
        entries = [Entry(self.sample_rate, self.noise_multiplier, steps)] if steps else []
        epsilon = compute_epsilon(entries, self.target_delta, self.accountant)
        return PrivacySpent(epsilon, self.target_delta, steps)

    def get_training_stats(self) -> dict[str, float | None]:
        """Numbers about the last step, made from raw data: only the data's owner may see them.

        med_clip, max_clip, min_clip: the factors by which gradients were scaled, over examples and groups;
        0 for gradients that are not finite. non_finite: the number of those examples. signal, noise:
        lengths of the clipped sum and of the noise; snr: their ratio; noise_limit: the noise's expected
        length. None: all before the first step; the factors for an empty batch; snr and noise_limit
        without noise; signal, noise and snr with record_snr=False.
        """
        return dict.fromkeys(NAMES) if self._stats is None else self._stats.as_dict()

    def kernel_table(self) -> None:
        """Print which kernel each parameter got, why, and what it costs.

        T: positions of an example; p, d: output and input features. ms: time of norm and weighted sum, for
        the batch on which kernels were tried; next best: the fastest of the others. KiB kept: memory for
        each example from its norm to the weighted sum. With `kernels=` kernels are fixed; with all of
        `engine.chooser.kernels` nothing is measured. Raises ConfigError before the first step.
        """
        rows = {row.parameter: row for row in self.chooser.rows}
        if not rows:
            raise ConfigError(
                "There is no kernel table before the first step: kernels are chosen in its backward pass."
            )
        print(kernel_table(rows[name] for name in self.parameters if name in rows))

    def largest_physical_batch(self, losses_of: Callable[..., Tensor], *batch: Any, memory: int) -> int:
        """How many examples, up to twice `batch_size`, a step can take at once in `memory` bytes.

            size = engine.largest_physical_batch(
                lambda x, y: F.cross_entropy(model(x), y, reduction="none"), x, y, memory=4 * 2**30
            )
            sampler = PoissonSampler(50_000, expected_batch_size=256, physical_batch_size=size)

        losses_of: gives the losses (N,) of a batch. batch: its arguments, in any structure; its examples
        are repeated, so a small batch is enough. memory: for what a step needs besides model, optimizer
        and data. A margin is kept for memory that cannot be seen; on CPUs the result is an estimate.
        Runs the model up to the clipped sum on growing batches. Only the start-up check and the chosen
        kernels remain of it. The size depends on shapes alone, unless the model's computation depends on
        values. The clipped sum is the same, up to rounding, however a logical batch is cut.
        Raises ConfigError when not even one example fits, and what a step may raise.
        """
        self._check_unlocked()

        def step(size: int) -> ClippedSum:
            gathered = empty_sum(self.parameters, self.max_grad_norm, self.clipping)
            return gathered + self._clipped(losses_of(*with_examples(batch, size)))

        # Without attach() nothing else notes the inputs.
        watch = self.module.register_forward_pre_hook(self._note_inputs, with_kwargs=True)
        try:
            device = next(iter(self.parameters.values())).device
            return largest_batch(step, memory, device, at_most=2 * self.batch_size)
        finally:
            watch.remove()

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs so that training goes on with the same noise.

        Save the optimizer, the model and the sampler as well. The state holds what virtual steps gathered,
        without noise, and the generator's state, from which all noise, past and future, can be computed:
        keep it as secret as the data. "secure" noise has no state, and is never the same.
        """
        generator, pending = self._generator, self._pending
        return {
            "settings": self._settings(),
            "steps": self.steps,
            "generator": generator.get_state() if isinstance(generator, torch.Generator) else None,
            "pending": None if pending is None else {"grads": pending.grads, "norms": pending.norms},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where the engine of `state` was.

        Raises ConfigError when that engine had other settings, because its steps would be priced wrongly.
        """
        if state["settings"] != self._settings():
            raise ConfigError(f"The saved engine had {state['settings']}, this one has {self._settings()}.")
        self.steps = state["steps"]
        if isinstance(self._generator, torch.Generator):
            self._generator.set_state(state["generator"].cpu())
        pending = state["pending"]
        self._pending = None if pending is None else self._sum_from(pending)

    def _sum_from(self, pending: Mapping[str, Any]) -> ClippedSum:
        """The sum, moved to the devices of the parameters: a checkpoint may have been loaded elsewhere."""
        grads = {name: pending["grads"][name].to(p.device) for name, p in self.parameters.items()}
        norms = pending["norms"].to(next(iter(grads.values())).device)
        return ClippedSum(grads, self.sensitivity, norms, self.clipping)

    def _settings(self) -> dict[str, Any]:
        """What decides the price of a step, and the source of its noise."""
        generator = self._generator
        return {
            "sample_rate": self.sample_rate,
            "noise_multiplier": self.noise_multiplier,
            "max_grad_norm": self.max_grad_norm,
            "clipping": {"name": self.clipping.name, **asdict(self.clipping)},
            "generator": generator.device.type if isinstance(generator, torch.Generator) else generator,
        }

    def _note_inputs(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note the model's mode, and its inputs if it has not been checked in that mode yet."""
        if not torch.is_grad_enabled():
            return
        self._training = _training(module)
        self._inputs = None if self._training in self._axes else (args, kwargs)

    def _before_step(
        self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """PyTorch calls this with the arguments of `step`; the result goes to the optimizer's own step."""
        if "loss" not in kwargs:
            raise TypeError(
                "A private step needs loss=, the losses per example, or loss=None to end a batch."
            )
        other = [name for name in kwargs if name != "loss"]
        if other or len(args) > 1:
            name = other[0] if other else "closure"
            raise TypeError(f"A private step takes loss= and nothing else, got {name!r}.")
        check_optimizer(optimizer, self.parameters)
        if kwargs["loss"] is not None:
            self._virtual_step(loss=kwargs["loss"])
        self._set_grads()
        return args, {}

    def _virtual_step(self, *, loss: Tensor) -> None:
        """Clip and add up one physical batch of the logical batch that the next step ends."""
        self._check_unlocked()
        clipped = self._clipped(loss)
        self._pending = clipped if self._pending is None else self._pending + clipped

    def _clipped(self, losses: Tensor) -> ClippedSum:
        return clipped_grad_sum(
            losses,
            self.parameters,
            max_grad_norm=self.max_grad_norm,
            clipping=self.clipping,
            axes=self._axes.get(self._training) or self._probed(),
            chooser=self.chooser,
        )

    def _check_unlocked(self) -> None:
        if self._locked:
            raise ConfigError("The engine is locked; call unlock() before the next step.")

    def _probed(self) -> Axes:
        if self._inputs is None:
            raise ConfigError(
                "The model was not called after attach(); call it as a whole, not its parts, so that the "
                "engine can check it on inputs of the same kind."
            )
        if self._training != _training(self.module):
            raise ConfigError(
                "The model was put in training or evaluation mode between its call and the step, before it "
                "was ever checked; do so after the step."
            )
        args, kwargs = self._inputs
        axes = self._axes[self._training] = probe(self.module, *args, **kwargs)
        self._inputs = None
        return axes

    def _set_grads(self) -> None:
        """Set the noisy mean gradient of everything pending; the step is counted before noise is drawn."""
        self._check_unlocked()
        clipped = self._pending or empty_sum(self.parameters, self.max_grad_norm, self.clipping)
        self._pending = None
        self.steps += 1
        noisy = clipped.grads
        if self.noise_multiplier > 0:
            noisy = add_gaussian_noise(
                clipped, noise_multiplier=self.noise_multiplier, generator=self._generator
            )
        self._stats = TrainingStats.of_step(
            clipped, noisy, self._groups, self.noise_multiplier, record_snr=self.record_snr
        )
        for name, parameter in self.parameters.items():
            parameter.grad = noisy[name].div_(self.batch_size).to(parameter.dtype)


def _checked_kernels(kernels: Mapping[str, str], names: Mapping[str, Any]) -> dict[str, str]:
    for name in kernels:
        if name not in names:
            raise ConfigError(
                f"kernels: {name} is not a parameter that is trained; they are {', '.join(names)}."
            )
    return dict(kernels)


def _training(module: nn.Module) -> tuple[bool, ...]:
    return tuple(part.training for part in module.modules())
