"""Gaussian noise for a clipped sum: in integers on a public grid, or by a torch.Generator.

There is one noise in integers: a sum becomes multiples of the grid's spacing (`multiples_of`), noise is added
to these (`add_noise`), and they become numbers again (`numbers_of`). A CPU and a GPU give the same bits.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.gradients.lengths import in_type, wide_type
from fl_dp.engine.noise.discrete_gaussian import CHUNK, DiscreteGaussian
from fl_dp.engine.noise.grid import NoiseGrid, noise_grid
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.engine.triton_support import has_triton
from fl_dp.errors import ConfigError

# "secure": integers on a grid, from fresh bytes of the operating system. A Randomness: the same, from its
# bytes and a digest of the sum. A torch.Generator: floating-point numbers, which can be seeded and saved but
# lack the proof of `grid.py`: on CPUs they end at 5.8 deviations, and are visibly spaced.
NoiseSource = Randomness | torch.Generator | Literal["secure"]

MOST_OF_ONE, MOST_SUMMED = 2**55, 100  # in a secure sum: multiples of a client's number, and clients


def add_gaussian_noise(
    clipped: ClippedSum, *, noise_multiplier: float, generator: NoiseSource
) -> Mapping[str, Tensor]:
    """The Gaussian mechanism: each entry gets noise of standard deviation multiplier * sensitivity.

    Call it once for each logical batch, with the sum of all its physical batches. On the grid the deviation
    is a little larger, see `noise_grid`: for the rounding of the sum (`error`), and for that of the grid.
    The real and the imaginary part of a complex entry each get noise of that deviation.

    Args:
        clipped: The sum, with its sensitivity.
        noise_multiplier: Deviation of the noise over the sensitivity.
        generator: "secure" for noise from the system's entropy. With a Randomness the noise also depends on
            the sum, by a digest of its integers, and on the grid: so one source never covers two different
            sums with the same noise, which would reveal their difference.

    Returns:
        Parameter name -> noisy sum, in float32 at least.

    Raises:
        ConfigError: A multiplier or sensitivity that protects nothing, or a sum over more examples than its
            `most`.

    Example:
        >>> import fl_dp, torch
        >>> total = fl_dp.empty_sum({"weight": torch.zeros(1000)}, max_grad_norm=2.0)
        >>> noisy = fl_dp.add_gaussian_noise(total, noise_multiplier=1.5, generator="secure")
        >>> 2.5 < noisy["weight"].std() < 3.5
        tensor(True)
    """
    if isinstance(generator, torch.Generator):
        return _by_generator(clipped, noise_multiplier, generator)
    if generator != "secure" and not isinstance(generator, Randomness):
        raise ConfigError(f"generator={generator!r}: expected 'secure', a Randomness or a torch.Generator.")
    grads = {name: _dense(grad) for name, grad in clipped.grads.items()}
    count = count_of(grads.values())
    grid = noise_grid(clipped.sensitivity, noise_multiplier, count, clipped.error)
    return numbers_of(_noisy(clipped, grads, grid, generator), grid, grads)


def share_of_sum(
    clipped: ClippedSum, *, noise_multiplier: float, shares: int, generator: Randomness
) -> tuple[dict[str, Tensor], NoiseGrid]:
    """The clipped sum as integers on the grid, with this client's share of the noise, and the grid.

    All clients have one grid, so its noise covers the largest rounding error of any batch, not that of this
    client's `most`.
    If `shares` of the clients keep theirs secret, the noise of the added sums is that of noise_multiplier:
    each share has a multiplier smaller by sqrt(shares), and `shares` independent discrete Gaussians of width
    w add up to one of width sqrt(shares) w (`discrete_gaussian.py`, with k = 1).
    Returns int64 tensors in the parameters' shapes, on the CPU; a complex parameter has a last dimension of
    2. Each number of the clipped sum is clamped to MOST_OF_ONE multiples, so that the sum over MOST_SUMMED
    clients fits 64 bits; clamping moves no two sums further apart.
    """
    if shares < 1:
        raise ConfigError(f"shares={shares}: expected at least 1.")
    grads = {name: _real(grad).contiguous().cpu() for name, grad in clipped.grads.items()}
    count = count_of(grads.values())
    grid = noise_grid(clipped.sensitivity, noise_multiplier / math.sqrt(shares), count)
    total = _noisy(clipped, grads, replace(grid, cut=MOST_OF_ONE), generator)
    parts = torch.split(total, [grad.numel() for grad in grads.values()])
    return {
        name: part.view(grad.shape) for (name, grad), part in zip(grads.items(), parts, strict=True)
    }, grid


def count_of(parameters: Iterable[Tensor]) -> int:
    """How many real numbers there are; a complex one counts twice."""
    return sum(one.numel() * (2 if one.is_complex() else 1) for one in parameters)


def multiples_of(sums: Iterable[Tensor], grid: NoiseGrid) -> Tensor:
    """(d,) int64: all numbers of dense sums, in the order of their memory, as the nearest multiples of the
    grid's spacing; on their device, or on the CPU if they have several.
    """
    spacing, most = grid.spacing, grid.cut
    flat = [_in_memory_order(one) for one in sums] or [torch.zeros(0)]
    if len({one.device for one in flat}) > 1:
        flat = [one.cpu() for one in flat]
    numbers = torch.empty(sum(map(len, flat)), dtype=torch.float64, device=flat[0].device)
    for place, one in zip(torch.split(numbers, [len(one) for one in flat]), flat, strict=True):
        place.copy_(one)
    found = numbers.view(torch.int64)  # the same memory, which holds first the one and then the other
    if found.device.type != "cpu":
        # By a tensor: by a number of the host, PyTorch multiplies with its reciprocal, which rounds twice.
        divisor = torch.tensor(spacing, dtype=torch.float64).to(found.device, non_blocking=True)
        return found.copy_(numbers.div_(divisor).round_().clamp_(-most, most).long())
    # By NumPy: for a small model PyTorch's calls take longer than their arithmetic.
    for start in range(0, len(found), CHUNK):  # a chunk stays in the cache
        part = numbers.numpy()[start : start + CHUNK]
        np.divide(part, spacing, out=part)
        np.rint(part, out=part)
        np.clip(part, -most, most, out=part)
        found.numpy()[start : start + CHUNK] = part
    return found


def add_noise(total: Tensor, grid: NoiseGrid, source: Randomness | Literal["secure"]) -> None:
    """Add the noise of one release to (d,) int64 multiples, in place, on the CPU or a GPU.

    source: as in `add_gaussian_noise`. Fresh bytes need no digest.
    """
    if not len(total):
        return
    digests = source if isinstance(source, Randomness) else None
    keyed = digests.child("noise", _name_of(grid)) if digests else Randomness.system()
    if has_triton(total.device):
        from fl_dp.engine.noise import device  # late: few machines have Triton

        device.add_noise(total, grid.levels, keyed, digests)
        return
    host = total.cpu()
    noise = DiscreteGaussian(grid.levels, keyed.keyed_by(digests.digest(host.numpy())) if digests else keyed)
    array = host.numpy()
    for start in range(0, len(array), CHUNK):
        part = array[start : start + CHUNK]
        part += noise.take(len(part))
    if host is not total:
        total.copy_(host)


def numbers_of(total: Tensor, grid: NoiseGrid, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The multiples as numbers, in the types, shapes and memory orders of `like`, on its devices; `like` is
    dense. They take the memory of `total`: new memory would take longer than all the arithmetic here.
    """
    numbers = total.view(torch.float64)
    if total.device.type == "cpu":
        for start in range(0, len(total), CHUNK):
            part = slice(start, start + CHUNK)
            numbers.numpy()[part] = total.numpy()[part] * grid.spacing
    else:
        numbers.copy_(total.double().mul_(grid.spacing))
    parts = torch.split(numbers, [count_of([one]) for one in like.values()])
    return {name: _shaped(part, one) for (name, one), part in zip(like.items(), parts, strict=True)}


def _shaped(numbers: Tensor, like: Tensor) -> Tensor:
    if like.is_complex():  # which may not begin at an odd place of the memory that all share
        numbers = torch.view_as_complex(numbers.clone().view(-1, 2))
    shaped = numbers.as_strided(like.shape, like.stride())
    return shaped if (shaped.dtype, shaped.device) == (like.dtype, like.device) else shaped.to(like)


def _noisy(
    clipped: ClippedSum, grads: Mapping[str, Tensor], grid: NoiseGrid, source: Randomness | Literal["secure"]
) -> Tensor:
    """(d,) int64: the sum, given as `grads`, and its noise, in multiples of the grid's spacing."""
    if len(clipped.norms) > clipped.most:
        raise ConfigError(
            f"A sum over more than {clipped.most} examples, the most that were planned for (`most`): its "
            "noise would not cover its rounding. Is the batch a Poisson draw of the expected size?"
        )
    total = multiples_of(grads.values(), grid)
    add_noise(total, grid, source)
    return total


def _name_of(grid: NoiseGrid) -> str:
    """The text that keys the noise: another one would give a round other noise (`records.NUMERICS`)."""
    return f"NoiseGrid(unit={grid.spacing!r}, levels={grid.levels!r}, deviation={grid.deviation!r})"


def _dense(grad: Tensor) -> Tensor:
    """The tensor in float32 at least, without gaps or overlaps in memory."""
    grad = in_type(grad, wide_type(grad.dtype))
    if grad.is_contiguous():  # most are, and the general check takes longer
        return grad
    same = torch.empty_like(grad, device="meta").stride() == grad.stride()
    return grad if same else grad.contiguous()


def _in_memory_order(tensor: Tensor) -> Tensor:
    """All numbers of a dense tensor in one dimension, without a copy; a complex number becomes two."""
    real = _real(tensor)
    if real.is_contiguous():
        return real.view(-1)
    strides = real.stride()
    dims = sorted(range(real.dim()), key=lambda dim: -strides[dim])
    return real.permute(dims).reshape(-1)


def _real(tensor: Tensor) -> Tensor:
    """The same memory as real numbers: a record may move either part by C."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _by_generator(
    clipped: ClippedSum, noise_multiplier: float, generator: torch.Generator
) -> dict[str, Tensor]:
    deviation = noise_multiplier * clipped.sensitivity
    if not 0 < deviation < float("inf"):
        raise ConfigError(
            f"Expected noise_multiplier={noise_multiplier} times sensitivity={clipped.sensitivity} "
            "to be finite and > 0."
        )
    return {name: _float_noise(grad, deviation, generator) for name, grad in clipped.grads.items()}


def _float_noise(grad: Tensor, deviation: float, generator: torch.Generator) -> Tensor:
    total = torch.empty_like(grad, dtype=wide_type(grad.dtype), device=generator.device)
    _real(total).normal_(0.0, deviation, generator=generator)
    return (total if total.device == grad.device else total.to(grad.device)).add_(grad)
