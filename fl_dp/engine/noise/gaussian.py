"""Gaussian noise for a clipped sum: in integers on a public grid, or by a torch.Generator."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.noise.discrete_gaussian import CHUNK, DiscreteGaussian
from fl_dp.engine.noise.grid import NoiseGrid, noise_grid
from fl_dp.engine.noise.passes import multiples_of
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.engine.sum_error import sum_error
from fl_dp.engine.triton_support import has_triton
from fl_dp.errors import ConfigError

# "secure": integers on a grid, from fresh bytes of the operating system. A Randomness: the same, from its
# bytes and a digest of the sum. A torch.Generator: floating-point numbers, which can be seeded and saved but
# lack the proof of `grid.py`: on CPUs they end at 5.8 deviations, and are visibly spaced.
NoiseSource = Randomness | torch.Generator | Literal["secure"]

_AS_THEY_ARE = (torch.float32, torch.float64)
_MOST = 2.0**62  # multiples of g; the sum is clamped to them, which moves no two sums further apart

MOST_OF_ONE, MOST_SUMMED = 2.0**55, 100  # in a secure sum: multiples of a client's number, and clients


def add_gaussian_noise(
    clipped: ClippedSum, *, noise_multiplier: float, generator: NoiseSource
) -> Mapping[str, Tensor]:
    """The Gaussian mechanism: each entry gets noise of standard deviation multiplier * sensitivity.

    Call it once for each logical batch, with the sum of all its physical batches. On the grid the deviation
    is a little larger, see `noise_grid`: for the rounding of the sum (`sum_error`), and for that of the grid.
    The real and the imaginary part of a complex entry each get noise of that deviation. The result is in
    float32 at least. Raises ConfigError for a multiplier or sensitivity that protects nothing, and for a sum
    over more examples than its `most`.

    generator: with a Randomness the noise also depends on the sum, by a digest of its integers, and on the
    grid. So one source never covers two different sums with the same noise, which would reveal their
    difference.
    """
    if isinstance(generator, torch.Generator):
        return _by_generator(clipped, noise_multiplier, generator)
    if generator != "secure" and not isinstance(generator, Randomness):
        raise ConfigError(f"generator={generator!r}: expected 'secure', a Randomness or a torch.Generator.")
    _check_size(clipped)
    grads = {name: _dense(grad) for name, grad in clipped.grads.items()}
    numbers = {name: _in_memory_order(grad) for name, grad in grads.items()}
    grid = noise_grid(
        clipped.sensitivity, noise_multiplier, sum(map(len, numbers.values())), sum_error(clipped.most)
    )
    if _on_one_gpu(numbers):
        return _on_device(grads, numbers, grid, generator)
    integers = _Integers({name: one.cpu().numpy() for name, one in numbers.items()}, grid)
    source = _source(generator, integers, grid)
    results = {name: torch.empty_like(grad, device="cpu") for name, grad in grads.items()}
    _add(integers, {name: _in_memory_order(one).numpy() for name, one in results.items()}, grid, source)
    return {name: result.to(grads[name].device) for name, result in results.items()}


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
        raise ConfigError(f"shares={shares}: expected 1 at least.")
    _check_size(clipped)
    real = {name: _real(_dense(grad)).contiguous().cpu() for name, grad in clipped.grads.items()}
    flat = {name: grad.view(-1).numpy() for name, grad in real.items()}
    count = sum(map(len, flat.values()))
    grid = noise_grid(clipped.sensitivity, noise_multiplier / math.sqrt(shares), count)
    integers = _Integers(flat, grid, most=MOST_OF_ONE)
    noise = DiscreteGaussian(grid.levels, _source(generator, integers, grid))
    results = {name: torch.empty(grad.shape, dtype=torch.int64) for name, grad in real.items()}
    for chunk, multiples in integers:
        total = noise.take(len(multiples))
        total += multiples
        _write(total, chunk, {name: one.view(-1).numpy() for name, one in results.items()})
    return results, grid


def _check_size(clipped: ClippedSum) -> None:
    if len(clipped.norms) > clipped.most:
        raise ConfigError(
            f"A sum over more than {clipped.most} examples, the most that were foreseen (`most`): its noise "
            "would not cover its rounding. Is the batch a Poisson draw of the expected size?"
        )


def _on_one_gpu(numbers: Mapping[str, Tensor]) -> bool:
    """Whether all numbers are on one device that makes their noise."""
    devices = {one.device for one in numbers.values()}
    return any(map(len, numbers.values())) and len(devices) == 1 and has_triton(*devices)


def _on_device(
    grads: Mapping[str, Tensor], numbers: Mapping[str, Tensor], grid: NoiseGrid, generator: Randomness | str
) -> dict[str, Tensor]:
    """The same as on the host, by kernels. numbers: those of the grads, in one dimension."""
    from fl_dp.engine.noise import device  # late: few machines have Triton

    multiples = multiples_of(numbers.values(), grid.spacing, _MOST)
    source, digests = _unkeyed(generator, grid)
    device.add_noise(multiples, grid.levels, source, digests)
    results = {name: torch.empty_like(grad) for name, grad in grads.items()}
    parts = torch.split(multiples, [len(one) for one in numbers.values()])
    for result, part in zip(results.values(), parts, strict=True):
        _in_memory_order(result).copy_(part.double() * grid.spacing)
    return results


def _source(generator: Randomness | str, integers: "_Integers", grid: NoiseGrid) -> Randomness:
    """The source of the noise for these integers: see `add_gaussian_noise`."""
    source, digests = _unkeyed(generator, grid)
    return source.keyed_by(digests.digest(multiples for _, multiples in integers)) if digests else source


def _unkeyed(generator: Randomness | str, grid: NoiseGrid) -> tuple[Randomness, Randomness | None]:
    """The noise's source before a digest of the integers keys it, and the digest's source. None: fresh bytes
    need no digest.
    """
    if not isinstance(generator, Randomness):
        return Randomness.system(), None
    return generator.child("noise", _name_of(grid)), generator


Numbers = Mapping[str, NDArray[Any]]  # each parameter's numbers, in the order of its memory
Chunk = list[tuple[str, slice]]  # some of the numbers of some parameters


class _Integers:
    """The sums as multiples of the grid's spacing, in chunks; read twice, for the digest and for the sum.

    If there is a single chunk, as for a small model, it is computed once. For a large model, keeping all
    would take twice the memory of its sums.
    """

    def __init__(self, sums: Numbers, grid: NoiseGrid, most: float = _MOST) -> None:
        self._sums, self._grid, self._chunks, self._most = sums, grid, list(_chunks(sums)), most
        self._only: NDArray[np.int64] | None = None

    def __iter__(self) -> Iterator[tuple[Chunk, NDArray[np.int64]]]:
        """The callers only read the integers."""
        if len(self._chunks) != 1:
            yield from ((chunk, self._multiples(chunk)) for chunk in self._chunks)
            return
        if self._only is None:
            self._only = self._multiples(self._chunks[0])
        yield self._chunks[0], self._only

    def _multiples(self, chunk: Chunk) -> NDArray[np.int64]:
        """The chunk's numbers as the nearest multiples of the grid's spacing, cut at `most`."""
        values = [self._sums[name][part] for name, part in chunk]
        quotients = np.divide(
            values[0] if len(values) == 1 else np.concatenate(values), self._grid.spacing, dtype=float
        )
        np.rint(quotients, out=quotients)
        np.clip(quotients, -self._most, self._most, out=quotients)
        multiples: NDArray[np.int64] = quotients.astype(np.int64)
        return multiples


def _add(integers: _Integers, out: Numbers, grid: NoiseGrid, source: Randomness) -> None:
    """Write the sums plus noise into `out`."""
    noise = DiscreteGaussian(grid.levels, source)
    for chunk, multiples in integers:
        total = noise.take(len(multiples))
        total += multiples
        _write(total * grid.spacing, chunk, out)


def _write(numbers: NDArray[Any], chunk: Chunk, out: Numbers) -> None:
    """Write a chunk's numbers to their places in `out`."""
    start = 0
    for name, part in chunk:
        out[name][part] = numbers[start : start + part.stop - part.start]
        start += part.stop - part.start


def _name_of(grid: NoiseGrid) -> str:
    """The text that keys the noise: another one would give a round other noise (`records.NUMERICS`)."""
    return f"NoiseGrid(unit={grid.spacing!r}, levels={grid.levels!r}, deviation={grid.deviation!r})"


def _dense(grad: Tensor) -> Tensor:
    """The tensor in float32 at least, without gaps or overlaps in memory."""
    if grad.dtype not in _AS_THEY_ARE:
        grad = grad.to(_noisy_type(grad))
    if grad.is_contiguous():  # most are, and the general check takes longer
        return grad
    same = torch.empty_like(grad, device="meta").stride() == grad.stride()
    return grad if same else grad.contiguous()


def _chunks(sums: Numbers) -> Iterator[Chunk]:
    """All numbers, CHUNK at a time: a small model fits in one chunk, a large layer has many."""
    chunk: Chunk = []
    room = CHUNK
    for name, values in sums.items():
        start = 0
        while start < len(values):
            stop = min(len(values), start + room)
            chunk.append((name, slice(start, stop)))
            room, start = room - (stop - start), stop
            if room == 0:
                yield chunk
                chunk, room = [], CHUNK
    if chunk:
        yield chunk


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


def _noisy_type(grad: Tensor) -> torch.dtype:
    return torch.promote_types(grad.dtype, torch.float32)


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
    total = torch.empty_like(grad, dtype=_noisy_type(grad), device=generator.device)
    _real(total).normal_(0.0, deviation, generator=generator)
    return (total if total.device == grad.device else total.to(grad.device)).add_(grad)
