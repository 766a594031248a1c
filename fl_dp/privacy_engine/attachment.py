"""The attributes and hooks that an engine adds to an optimizer and a model, and removes again."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from fl_dp.errors import ConfigError

BeforeStep = Callable[[torch.optim.Optimizer, tuple[Any, ...], dict[str, Any]], Any]
BeforeCall = Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None]

# Opacus and its schedulers assign these to an optimizer. Nothing here would read them.
_OF_OPACUS = ("noise_multiplier", "max_grad_norm", "expected_batch_size")


class Attachment:
    """The attributes and hooks. They exist from construction until `remove`."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        module: nn.Module,
        added: Mapping[str, Any],
        before_step: BeforeStep,
        before_call: BeforeCall,
    ) -> None:
        self._optimizer, self._added = optimizer, tuple(added)
        self._had = set(vars(optimizer))
        for name, value in added.items():
            setattr(optimizer, name, value)
        self._hooks = [
            optimizer.register_step_pre_hook(before_step),
            module.register_forward_pre_hook(before_call, with_kwargs=True),
        ]

    def check_unassigned(self) -> None:
        """ConfigError for a setting that was assigned to the optimizer, as Opacus' schedulers do."""
        for name in _OF_OPACUS:
            if name in vars(self._optimizer) and name not in self._had:
                raise ConfigError(
                    f"optimizer.{name} was assigned, but nothing reads it; pass it to PrivacyEngine(...), "
                    "as one number or as a table with one number for each step."
                )

    def remove(self) -> None:
        """Give the optimizer its own step back."""
        for name in self._added:
            delattr(self._optimizer, name)
        for hook in self._hooks:
            hook.remove()


def check_attachable(optimizer: torch.optim.Optimizer) -> None:
    """ConfigError for an optimizer that has an engine, or computes several gradients in one step."""
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
