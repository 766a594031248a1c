"""Numbers of the last step: how far gradients were clipped, and how long signal and noise are."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn

from fl_dp.engine.bounds import Group
from fl_dp.engine.clipping import ClippedSum

NAMES = ("med_clip", "max_clip", "min_clip", "non_finite", "snr", "signal", "noise", "noise_limit")


@dataclass(frozen=True, slots=True)
class TrainingStats:
    """One step's clipped sum without its gradients; raw data, which only the data's owner may see.

    Numbers stay on the device until they are read.

    signal, noise: lengths of the clipped sum and of its noise; None if they were not recorded.
    noise_limit: the expected length of the noise.
    """

    clipped: ClippedSum
    groups: tuple[Group, ...]
    noise_limit: float
    signal: Tensor | None = None
    noise: Tensor | None = None

    @classmethod
    def of_step(
        cls,
        clipped: ClippedSum,
        noisy: Mapping[str, Tensor],
        groups: tuple[Group, ...],
        noise_multiplier: float,
        *,
        record_snr: bool,
    ) -> Self:
        """The numbers of a step that added noise to `clipped` and got `noisy`; groups: with their bounds."""
        size = sum(grad.numel() for grad in clipped.grads.values())
        limit = math.sqrt(size) * noise_multiplier * clipped.sensitivity
        kept = ClippedSum({}, clipped.sensitivity, clipped.norms, clipped.clipping)
        if not record_snr:
            return cls(kept, groups, limit)
        noise = _length(noisy[name] - grad for name, grad in clipped.grads.items())
        return cls(kept, groups, limit, _length(clipped.grads.values()), noise)

    def as_dict(self) -> dict[str, float | None]:
        """The numbers by `NAMES`, as `PrivacyEngine.get_training_stats` describes them."""
        stats: dict[str, float | None] = dict.fromkeys(NAMES)
        stats["non_finite"] = float(self.clipped.num_non_finite)
        if len(factors := self._factors()):
            stats["med_clip"] = float(factors.median())
            stats["max_clip"], stats["min_clip"] = float(factors.max()), float(factors.min())
        stats["noise_limit"] = self.noise_limit or None
        if self.signal is not None and self.noise is not None:
            signal, noise = float(self.signal), float(self.noise)
            stats["signal"], stats["noise"] = signal, noise
            stats["snr"] = signal / noise if noise else None
        return stats

    def _factors(self) -> Tensor:
        """(N, G) factors of each example's gradients; 0 in all groups if one gradient is not finite."""
        norms = self.clipped.norms.view(-1, len(self.groups))
        columns = zip(norms.unbind(1), self.groups, strict=True)
        factors = [self.clipped.clipping.factors(column, group.bound) for column, group in columns]
        return torch.stack(factors, 1) * norms.isfinite().all(1, keepdim=True)


def _length(tensors: Iterable[Tensor]) -> Tensor:
    """Euclidean norm of all tensors together. It stays on the device: reading it would make a GPU wait."""
    return nn.utils.get_total_norm([torch.linalg.vector_norm(tensor) for tensor in tensors])
