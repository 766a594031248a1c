"""Random numbers that do not depend on the batch's size: one value for all entries of a tensor.

Dropout draws its masks one example after the other. If an example is left out, all others get other masks,
and their losses cannot be compared. In this mode they can.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

# What replaces an operator's random numbers, by its name without overload: a possible value. For dropout it
# means that everything is kept.
_VALUES: dict[str, float] = dict.fromkeys(
    ("rand", "rand_like", "uniform", "uniform_", "randn", "randn_like", "normal", "normal_"), 0.5
) | dict.fromkeys(("bernoulli", "bernoulli_"), 1.0)


class _Replacing:
    """What `EqualRows` does with every operator."""

    unknown = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        name = func.overloadpacket.__name__
        if name == "native_dropout":  # what CUDA calls dropout: its output and its mask
            return args[0].clone(), torch.ones_like(args[0], dtype=torch.bool)
        value = _VALUES.get(name)
        if value is None:
            self.unknown = True
            return func(*args, **kwargs)
        return _drawn(func, args, kwargs, value)


def _drawn(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], value: float) -> Tensor:
    """The operator's result. If numbers are replaced, the generators do not move: their count is hidden."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices):
        drawn: Tensor = func(*args, **kwargs)
        if drawn.dim():
            return drawn.fill_(value)
    drawn = func(*args, **kwargs)  # the same number again, and the generator has moved
    return drawn  # noqa: RET504 - mypy wants the type


class EqualRows(_Replacing, TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Random tensors hold one value; random numbers without a dimension are not changed.

    unknown: whether an operator drew random numbers that this mode cannot replace.
    It is separate because a mode that defines `__torch_dispatch__` itself imports torch._dynamo (4 s).
    """
