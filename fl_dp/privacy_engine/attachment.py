"""The attributes and hooks that an engine adds to an optimizer and a model, and removes again."""

import functools
import sys
import weakref
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, NoReturn

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.hooks import RemovableHandle
from torch.utils.weak import WeakIdKeyDictionary

from fl_dp.engine.sampling import PoissonSampler
from fl_dp.engine.unfused import Hook, unfuse
from fl_dp.errors import ConfigError
from fl_dp.privacy_engine.counts import Series, note
from fl_dp.privacy_engine.forward_passes import PassWatch

BeforeStep = Callable[[torch.optim.Optimizer, tuple[Any, ...], dict[str, Any]], Any]
StateHook = Callable[[torch.optim.Optimizer, dict[str, Any]], None]

# Opacus and its schedulers assign these to an optimizer. Nothing here would read them.
_OF_OPACUS = ("noise_multiplier", "max_grad_norm", "expected_batch_size")


class WeakHook(Hook):
    """A `Hook` that does nothing once the engine is gone."""

    def __init__(self, hook: Callable[..., None]) -> None:
        weak = weakref.WeakMethod(hook)
        super().__init__(lambda *call: None if (there := weak()) is None else there(*call))


class _NoScaler:
    """What GradScaler.step asks an optimizer first."""

    def __bool__(self) -> NoReturn:
        raise ConfigError(
            "GradScaler.step: a private step clips each gradient, so a scale would only move the bound. "
            "Leave the scaler out, and call optimizer.step(loss=losses). bfloat16 needs none."
        )


class UnprotectedSteps:
    """Counts steps by optimizers without an engine over the parameters of a model.

    parameters: the engine's own. This object lives as long as one of them, even after the engine is gone,
    until another engine over them counts. While an engine is attached, `Attachment` refuses such steps over
    them, and only steps over the rest of the model are counted.
    """

    def __init__(self, module: nn.Module, parameters: Mapping[str, nn.Parameter]) -> None:
        self._module, self._own, self._series = weakref.ref(module), WeakIdKeyDictionary(), Series(1.0, 0.0)
        for parameter in parameters.values():
            self._own[parameter] = None
            _COUNTING[parameter] = self
        self._attachment: weakref.ref[Attachment] | None = None
        _watch_all_optimizers(self)
        self.start()

    @property
    def taken(self) -> int:
        return self._series.taken

    def start(self) -> None:
        """Count from now on. Later engines over these weights count these steps, too."""
        module = self._module()
        note(self._series, [*self._own, *(module.parameters() if module else ())])
        self._attachment = None

    def stop(self, attachment: "Attachment") -> None:
        """Do not count until `start`, or as long as this attachment exists."""
        self._attachment = weakref.ref(attachment)

    def check_other(self, optimizer: torch.optim.Optimizer) -> None:
        """Count a step that moves one of the parameters."""
        if hasattr(optimizer, "privacy_engine"):
            return
        is_attached = self._attachment is not None and self._attachment() is not None
        module = self._module()
        rest = set(map(id, module.parameters())) if module else set()
        self._series.taken += any(
            not is_attached if parameter in self._own else id(parameter) in rest
            for group in optimizer.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        )


class Attachment:
    """The attributes and hooks. They exist from construction until `remove`.

    parameters: by name; until then no optimizer without an engine may step over them. states: hooks of
    `state_dict` and `load_state_dict`, for loops whose trainer saves by itself.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        module: nn.Module,
        parameters: Mapping[str, nn.Parameter],
        added: Mapping[str, Any],
        before_step: BeforeStep,
        watch: PassWatch,
        states: tuple[StateHook, StateHook] | None = None,
    ) -> None:
        hooks = hooks_of(module, watch)  # raises before anything was added
        self._optimizer = optimizer
        added = {**added, "_step_supports_amp_scaling": _NoScaler()}
        self._added = {name: vars(optimizer).get(name, _NOTHING) for name in added}
        self._names = {id(parameter): name for name, parameter in parameters.items()}
        self._had = set(vars(optimizer))
        for name, value in added.items():
            setattr(optimizer, name, value)
        self._hooks = [optimizer.register_step_pre_hook(before_step), *hooks]
        if states is not None:
            self._hooks.append(optimizer.register_state_dict_post_hook(states[0]))
            self._hooks.append(optimizer.register_load_state_dict_pre_hook(states[1]))
        _watch_all_optimizers(self)

    def check_other(self, optimizer: torch.optim.Optimizer) -> None:
        """ConfigError if a step of `optimizer` would move the parameters beside the attached one.

        A step within the attached one's is a part of it, as of an optimizer that wraps another.
        """
        if optimizer is self._optimizer or hasattr(optimizer, "privacy_engine"):
            return
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if (name := self._names.get(id(parameter))) and not self._is_stepping():
                    raise ConfigError(
                        f"{name} has a private optimizer, but one without an engine, "
                        f"{type(optimizer).__name__}, would move it, too. Give the attached optimizer all "
                        "parameters, in groups, or call the engine's detach() first."
                    )

    def _is_stepping(self) -> bool:
        """Whether this call is within a step of the attached optimizer. A flag would stay after a step that
        raised, and hold for other threads.
        """
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame.f_locals.get("self") is not self._optimizer:
            frame = frame.f_back
        return frame is not None

    def check_unassigned(self) -> None:
        """ConfigError for a setting that was assigned to the optimizer, as Opacus' schedulers do."""
        for name in _OF_OPACUS:
            if name in vars(self._optimizer) and name not in self._had:
                raise ConfigError(
                    f"optimizer.{name} was assigned, but nothing reads it; pass it to PrivacyEngine(...). "
                    "For another one later, call detach() and make a new engine, which continues the count."
                )

    def remove(self) -> None:
        """Restore the optimizer's own step."""
        for name, before in self._added.items():
            delattr(self._optimizer, name)
            if before is not _NOTHING:  # a fused optimizer's own
                setattr(self._optimizer, name, before)
        for hook in self._hooks:
            hook.remove()
        _WATCHING[:] = [one for one in _WATCHING if one() is not self]


def hooks_of(module: nn.Module, watch: PassWatch) -> tuple[RemovableHandle, RemovableHandle]:
    """The hooks by which `watch` sees the model's passes. ConfigError for a model that takes none."""
    unfuse(module)
    try:
        return (
            module.register_forward_pre_hook(WeakHook(watch.begin), with_kwargs=True),
            module.register_forward_hook(WeakHook(watch.end), with_kwargs=True),
        )
    except RuntimeError as error:
        raise ConfigError(
            f"{type(module).__name__} takes no hooks, through which the engine sees the model's passes "
            f"({error}). Give PrivacyEngine the model as it was before torch.jit.script or torch.jit.trace, "
            "and script it after training."
        ) from error


_NOTHING = object()
_COUNTING: Any = WeakIdKeyDictionary()  # a parameter -> its latest `UnprotectedSteps`, which holds it weakly
_WATCHING: list[weakref.ref[Attachment | UnprotectedSteps]] = []


def _watch_all_optimizers(one: Attachment | UnprotectedSteps) -> None:
    """Call its `check_other` before the steps of all optimizers, from now on."""
    _hook_of_all()
    _WATCHING[:] = [other for other in _WATCHING if other() is not None] + [weakref.ref(one)]


@functools.cache
def _hook_of_all() -> RemovableHandle:
    """One hook for all, never removed: a step that just goes through PyTorch's table of these hooks, while an
    engine becomes garbage or is attached by another thread, would raise if the table changed.
    """

    def check(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for one in tuple(_WATCHING):
            if (there := one()) is not None:
                there.check_other(optimizer)

    return register_optimizer_step_pre_hook(check)


def check_attachable(optimizer: object, sampler: object) -> None:
    """ConfigError for what is no optimizer or no sampler, and for an optimizer that has an engine, or
    computes several gradients in one step.
    """
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ConfigError(f"attach: expected a torch.optim optimizer, not {type(optimizer).__name__}.")
    if not isinstance(sampler, PoissonSampler | None):
        raise ConfigError(
            f"attach: expected sampler= a fl_dp.PoissonSampler, not {type(sampler).__name__}; a DataLoader "
            "gets it as batch_sampler=sampler (docs/training_loop.md)."
        )
    if not hasattr(optimizer, "_optimizer_step_pre_hooks"):
        raise ConfigError(
            f"attach: {type(optimizer).__name__} wraps an optimizer. Attach the one inside, which accelerate "
            "calls optimizer.optimizer; with loader= the wrapper's step() works; step(loss=...) belongs to "
            "the inner one."
        )
    if hasattr(optimizer, "privacy_engine"):
        raise ConfigError("Another engine is attached to this optimizer; call its detach() first.")
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ConfigError("LBFGS computes several gradients in one step; use another optimizer.")


def check_step_arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """TypeError unless `optimizer.step` was called with loss= and nothing else."""
    if "loss" not in kwargs:
        raise TypeError("A private step needs loss=, the losses per example, or loss=None to end a batch.")
    other = [name for name in kwargs if name != "loss"]
    if other or len(args) > 1:
        name = other[0] if other else "closure"
        raise TypeError(f"A private step takes only loss=, got {name!r}.")
