"""Clipping functions: the factor by which an example's gradient is scaled, given its length.

All functions keep one contract: if no gradient is longer than the norm given for it, then no gradient times
its factor is longer than C, even after rounding. Adding or removing a record adds or removes one such vector,
so the sum's sensitivity is C for every function.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import ClassVar

import torch
from torch import Tensor

from fl_dp.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ClipFunction(ABC):
    """One clipping function with its settings. They are public: do not choose them by looking at the data."""

    name: ClassVar[str]

    def factors(self, norms: Tensor, max_grad_norm: float) -> Tensor:
        """Factor for each of `norms`, in their shape and type; norm * factor <= max_grad_norm.

        norms: upper bounds of the lengths, in float32 or float64. A norm that is not finite gets the
        factor 0. So does a norm so large that its factor would be subnormal, where rounding errors are
        relatively large.
        """
        precision = torch.finfo(norms.dtype)
        # Room for four roundings of relative size eps / 2: of the bound, of the quotient, of the setting and
        # of the product with the gradient. A sum in `_weights` is never below the norm that is part of it.
        factors = self._weights(norms, max_grad_norm * (1 - 4 * precision.eps)).clamp_max(precision.max)
        return torch.where(norms.isfinite() & (factors >= precision.tiny), factors, 0)

    @abstractmethod
    def _weights(self, norms: Tensor, bound: float) -> Tensor:
        """The formula. In exact arithmetic it is at most bound / norm."""

    def check_bound(self, max_grad_norm: float) -> None:
        """Raise ConfigError for a bound that bounds nothing."""
        if not 0 < max_grad_norm < math.inf:
            raise ConfigError(f"Expected max_grad_norm={max_grad_norm} > 0 and finite.")

    def _check(self, **settings: float) -> None:
        for name, value in settings.items():
            if not 0 < value < math.inf:
                raise ConfigError(f"Clipping function {self.name!r}: expected {name}={value} > 0 and finite.")


@dataclass(frozen=True, slots=True)
class Abadi(ClipFunction):
    """min(1, C / norm) (Abadi et al. 2016): gradients no longer than C stay as they are.

    Sensitivity: norm * min(1, C / norm) = min(norm, C) <= C.
    """

    name: ClassVar[str] = "abadi"

    def _weights(self, norms: Tensor, bound: float) -> Tensor:
        return (bound / norms).clamp_max(1.0)

    def check_bound(self, max_grad_norm: float) -> None:
        """An infinite bound is also allowed. Then nothing is clipped, and noise cannot be added."""
        if not max_grad_norm > 0:
            raise ConfigError(f"Expected max_grad_norm={max_grad_norm} > 0.")


@dataclass(frozen=True, slots=True)
class Automatic(ClipFunction):
    """C / (norm + gamma) (AUTO-S, Bu, Wang, Zha, Karypis 2023, arXiv 2206.07136).

    Every gradient gets about the same length; gamma > 0 keeps short ones shorter.
    Sensitivity: norm * C / (norm + gamma) < C.
    """

    name: ClassVar[str] = "automatic"
    gamma: float = 0.01

    def __post_init__(self) -> None:
        self._check(gamma=self.gamma)

    def _weights(self, norms: Tensor, bound: float) -> Tensor:
        return bound / (norms + self.gamma)


_KINDS: dict[str, type[ClipFunction]] = {kind.name: kind for kind in (Abadi, Automatic)}


def clip_function(name: str, **settings: float) -> ClipFunction:
    """The clipping function `name` with `settings`.

    Args:
        name: "abadi" or "automatic".
        settings: The function's own, such as `gamma` of "automatic".

    Returns:
        What `clipping=` takes.

    Raises:
        ConfigError: A name or a setting that does not exist.

    Example:
        >>> import fl_dp
        >>> fl_dp.clip_function("automatic", gamma=0.1).gamma
        0.1
    """
    if name not in _KINDS:
        raise ConfigError(f"clipping={name!r}: expected one of {', '.join(_KINDS)}.")
    known = [field.name for field in fields(_KINDS[name])]
    for setting in settings:
        if setting not in known:
            raise ConfigError(
                f"Clipping function {name!r} has no setting {setting!r}; it has {', '.join(known) or 'none'}."
            )
    make: Callable[..., ClipFunction] = _KINDS[name]
    return make(**settings)
