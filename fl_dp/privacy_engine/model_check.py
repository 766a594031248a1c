"""The start-up check of the model that an engine trains, on inputs of the user's own calls."""

from typing import Any

import torch
from torch import nn

from fl_dp.engine.backward import Axes
from fl_dp.engine.probe import probe
from fl_dp.errors import ConfigError


class ModelCheck:
    """Checks a model once in every mode: batch norm, for one, mixes examples only in training mode.

    Register `note_inputs` as a forward pre-hook with keywords, so that it runs before every forward pass.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._training: tuple[bool, ...] = ()  # which modules were in training mode at the last call
        self._axes: dict[tuple[bool, ...], Axes] = {}
        # The arguments of the last call, if the model was not checked in that mode yet.
        self._inputs: tuple[tuple[Any, ...], dict[str, Any]] | None = None

    def note_inputs(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note the model's mode, and its inputs if it has not been checked in that mode yet."""
        if not torch.is_grad_enabled():
            return
        self._training = _training(module)
        self._inputs = None if self._training in self._axes else (args, kwargs)

    def axes(self) -> Axes:
        """Where the batch lies in every use, in the mode of the last call; checks the model if need be.

        Raises ConfigError if the model was not called, and what `probe` raises.
        """
        found = self._axes.get(self._training)
        return self._probed() if found is None else found

    def _probed(self) -> Axes:
        if self._inputs is None:
            raise ConfigError(
                "The model was not called after attach(); call it as a whole, not its parts, so that the "
                "engine can check it on inputs of the same kind."
            )
        if self._training != _training(self._module):
            raise ConfigError(
                "The model was put in training or evaluation mode between its call and the step, before it "
                "was ever checked; do so after the step."
            )
        args, kwargs = self._inputs
        axes = self._axes[self._training] = probe(self._module, *args, **kwargs)
        self._inputs = None
        return axes


def _training(module: nn.Module) -> tuple[bool, ...]:
    return tuple(part.training for part in module.modules())
