"""Poisson sampling: logical batches of random size, cut into physical batches that fit in memory."""

from collections.abc import Iterator

import torch
from torch import Tensor

from fl_dp.errors import ConfigError


def poisson_draw(num_records: int, sample_rate: float, generator: torch.Generator) -> Tensor:
    """Indices of one logical batch: each record enters independently with `sample_rate`.

    Uniform numbers are float64: in float32 a rate would be off by up to 2^-24.
    """
    if not 0.0 < sample_rate <= 1.0:
        raise ConfigError(f"Expected sample_rate={sample_rate} in (0, 1].")
    draws = torch.rand(num_records, dtype=torch.float64, generator=generator)
    return (draws < sample_rate).nonzero().squeeze(1)


def physical_batches(indices: Tensor, physical_batch_size: int) -> Iterator[Tensor]:
    """Cut a logical batch into parts of at most `physical_batch_size`; none for an empty draw."""
    if physical_batch_size < 1:
        raise ConfigError(f"Expected physical_batch_size={physical_batch_size} >= 1.")
    for start in range(0, len(indices), physical_batch_size):
        yield indices[start : start + physical_batch_size]
