"""Makes nn.LSTM run on a CPU by its elementary operators, which the rules know.

The fused operator (oneDNN's) computes all steps of a sequence at once, and shows no gradient of a single one.
Other layers stay fused.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from weakref import WeakSet

import torch
from torch import nn

_UNFUSED: WeakSet[nn.Module] = WeakSet()
_BEFORE: list[bool] = []  # of the passes that have begun: whether oneDNN was on


class Hook:
    """A hook that copies and saved files lose: there it does nothing, and needs no fl_dp."""

    def __init__(self, hook: Callable[..., None]) -> None:
        self._hook = hook

    def __call__(self, *call: Any) -> None:
        self._hook(*call)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (nullcontext(), "__exit__")  # takes anything, does nothing, and any Python has it


def unfuse(model: nn.Module) -> None:
    """From now on each nn.LSTM of the model runs unfused."""
    for layer in model.modules():
        if isinstance(layer, nn.LSTM) and layer not in _UNFUSED:
            layer.register_forward_pre_hook(Hook(_off))
            layer.register_forward_hook(Hook(_back), always_call=True)
            _UNFUSED.add(layer)


def _off(*_: Any) -> None:
    # The first entry is from before a pass that was interrupted (Ctrl-C), or that another thread runs now.
    _BEFORE.append(_BEFORE[0] if _BEFORE else torch._C._get_mkldnn_enabled())
    torch._C._set_mkldnn_enabled(False)


def _back(*_: Any) -> None:
    if _BEFORE:  # else a hook before ours has raised
        torch._C._set_mkldnn_enabled(_BEFORE.pop())
