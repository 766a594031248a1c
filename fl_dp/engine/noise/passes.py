"""A logical batch whose passes are rounded to the grid one by one, so that processes can add integers.

Integers are added exactly: their sum is the same in whatever order and by however many processes it is made.
`gaussian.py` rounds once, after the last pass; here every pass is rounded by itself.

What one record can move. A draw of at most B records (`most_drawn`) is cut in its order into passes of p
records, so into K = ceil(B / p) at most. One record more or less moves all later records by one place, so
every later pass may hold other records, and every pass may round differently.

- Before rounding, the passes together still sum the same clipped gradients, with one more or less: that moves
  their sum by C (1 + error). The error of the passes adds up to `sum_error(B)` at most, as it is a multiple
  of the number of records. (Dividing by g in float64 is one more rounding of those that it counts.)
- Rounding moves each number of a pass by g / 2 at most, that of K passes by K g / 2. Both neighbouring sums
  are rounded: they are at most K sqrt(d) g further apart than before.

So a record moves the rounded sum by C (1 + error) + K sqrt(d) g at most, and `noise_grid(..., passes=K)`
scales the noise to that.

The cut at 2^62 / K. The sum of K passes must not overflow. But cutting one pass alone is not covered above:
when records change places, it could move that pass further than they move the sum of all. So no pass may
reach the cut. A number of a pass is at most C (p + error), and `pass_grid` refuses settings with which this
is not below the cut. Then the cut changes nothing, whatever the records are.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from fl_dp.engine.noise.discrete_gaussian import CHUNK, DiscreteGaussian
from fl_dp.engine.noise.grid import NoiseGrid, noise_grid
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.engine.sum_error import sum_error
from fl_dp.engine.triton_support import has_triton
from fl_dp.errors import ConfigError

_MOST = 2**62  # of the sum of all passes, in multiples of g; the noise is far below 2^62 too


@dataclass(frozen=True, slots=True)
class PassGrid:
    """A grid that covers the rounding of up to `passes` passes. cut: of each number of a pass."""

    grid: NoiseGrid
    passes: int
    cut: int


@lru_cache(maxsize=64)
def pass_grid(sensitivity: float, noise_multiplier: float, count: int, most: int, size: int) -> PassGrid:
    """The grid for passes of at most `size` records, out of a draw of at most `most`, of `count` numbers.

    All of this is public. Raises ConfigError as `noise_grid` does, and for a grid so fine that integers of
    64 bits could not hold the sum.
    """
    passes, error = math.ceil(most / size), sum_error(most)
    grid = noise_grid(sensitivity, noise_multiplier, count, error, passes)
    cut = _MOST // passes
    if (size + error) * sensitivity / grid.spacing + 1 >= cut:
        raise ConfigError(
            f"noise_multiplier={noise_multiplier:g}, {passes} passes: the grid is so fine that 64 bits do "
            f"not hold the sum of {most} records; raise the multiplier or the physical batch size."
        )
    return PassGrid(grid, passes, cut)


def count_of(parameters: Iterable[Tensor]) -> int:
    """How many real numbers there are; a complex one counts twice."""
    return sum(one.numel() * (2 if one.is_complex() else 1) for one in parameters)


def multiples_of(sums: Iterable[Tensor], spacing: float, most: float) -> Tensor:
    """(d,) int64: all numbers of the sums as the nearest multiples of the spacing, cut at `most`."""
    flat = [(torch.view_as_real(one) if one.is_complex() else one).reshape(-1) for one in sums]
    found = torch.empty(sum(map(len, flat)), dtype=torch.int64, device=flat[0].device)
    # By a tensor: by a number of the host, PyTorch multiplies with its reciprocal, which rounds twice.
    divisor = torch.tensor(spacing, dtype=torch.float64).to(found.device, non_blocking=True)
    for into, one in zip(torch.split(found, [len(one) for one in flat]), flat, strict=True):
        size = CHUNK if one.device.type == "cpu" else max(1, len(one))  # a chunk stays in the cache
        for integers, numbers in zip(torch.split(into, size), torch.split(one, size), strict=True):
            integers.copy_((numbers.double() / divisor).round_().clamp_(-most, most))
    return found


def add_noise(total: Tensor, grid: PassGrid, source: Randomness) -> None:
    """Add the noise of one release to (d,) int64 sums of multiples, in place, on the CPU or a GPU.

    source: of fresh secret bytes, used for this total alone; on other sums its noise would reveal their
    difference.
    """
    levels = grid.grid.levels
    if has_triton(total.device):
        from fl_dp.engine.noise import device  # late: few machines have Triton

        device.add_noise(total, levels, source, None)
        return
    noise, host = DiscreteGaussian(levels, source), total.cpu()
    for chunk in torch.split(host, CHUNK):
        chunk += torch.from_numpy(noise.take(len(chunk)))
    if host is not total:
        total.copy_(host)


def numbers_of(total: Tensor, grid: PassGrid, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The multiples as numbers in float64, by parameter and in its shape."""
    parts = torch.split(total, [count_of([one]) for one in parameters.values()])
    return {
        name: _shaped(part.double().mul_(grid.grid.spacing), parameter)
        for (name, parameter), part in zip(parameters.items(), parts, strict=True)
    }


def _shaped(numbers: Tensor, parameter: Tensor) -> Tensor:
    if parameter.is_complex():
        return torch.view_as_complex(numbers.view(*parameter.shape, 2))
    return numbers.view(parameter.shape)
