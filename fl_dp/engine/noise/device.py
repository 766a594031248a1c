"""Noise on the grid made where the sum is: the numbers of `gaussian.py`, bit for bit, without the host.

The host sends keys and reads nothing back: digest, key and noise stay on the device, and no shape depends on
a number. Memory: 8 bytes for each number of the sum, and 50 MiB at most.
"""

from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import triton  # type: ignore[import-untyped]
from numpy.typing import NDArray
from torch import Tensor

from fl_dp.engine.noise import kernels
from fl_dp.engine.noise.discrete_gaussian import BASE_WIDTH, CHUNK, FACTOR, table
from fl_dp.engine.noise.randomness import BLOCK, KEY_BYTES, MOST_BLOCKS, Randomness
from fl_dp.errors import ConfigError

SEGMENT = 64 * CHUNK  # numbers whose noise is made at once
LANES = 256  # numbers of a program, each with the 16 words of a block in registers
_GROUP = 64  # values that a lane folds, one after the other
_SPARE = 16  # lookups for which one word of further bits is made beforehand; one in 28 needs a word
_PRIME, _CLAMP = (1 << 130) - 5, 0x0FFFFFFC_0FFFFFFC_0FFFFFFC_0FFFFFFF


def add_noise(multiples: Tensor, levels: int, source: Randomness, digests: Randomness | None) -> None:
    """Add to (d,) int64 multiples, in place, what `DiscreteGaussian(levels, ...)` draws on the host.

    digests: the source of the key of a digest of the multiples, which keys the noise as
    `Randomness.keyed_by` does; without one the source itself is used. Raises ConfigError for more numbers
    than a stream of ChaCha20 covers.
    """
    count, device = len(multiples), multiples.device
    if 2 * levels * count > MOST_BLOCKS * BLOCK:
        raise ConfigError(f"{count} numbers need more noise than one stream has: train fewer parameters.")
    with torch.cuda.device_of(multiples):  # type: ignore[no-untyped-call]  # Triton launches on the current one
        key = key_of(source, device)
        if digests is not None:
            unkeyed, key = key, torch.empty_like(key)
            kernels.derived_key[(1,)](key, unkeyed, digest(multiples, digests).view(torch.int32), lanes=32)
        used = torch.zeros(1, dtype=torch.int64, device=device)
        for start in range(0, count, SEGMENT):
            part = multiples[start : start + SEGMENT]
            numbers, used = drawn(levels * len(part), levels * start, key, used)
            _add_levels(part, numbers, levels)


def key_of(source: Randomness, device: torch.device) -> Tensor:
    """(8,) int32: the key of the source's streams."""
    return _sent(np.frombuffer(source.key[:KEY_BYTES], "<i4").copy(), device)


def digest(multiples: Tensor, digests: Randomness) -> Tensor:
    """(2,) int64: the 16 bytes of `Randomness.digest`.

    Poly1305 is a polynomial of its blocks at a secret point. Groups of blocks are summed up beside each
    other, then groups of their sums by the point's power, until one is left.
    """
    secret = digests.child("digest").key
    point = int.from_bytes(secret[:16], "little") & _CLAMP
    sizes = [triton.cdiv(len(multiples), 2)]  # of values before each fold: blocks of 16 bytes, then sums
    while len(sizes) == 1 or sizes[-1] > 1:
        sizes.append(triton.cdiv(sizes[-1], _GROUP))
    powers = [_limbs(pow(point, _GROUP**level, _PRIME)) for level in range(len(sizes) - 1)]
    sent = _sent(np.array([*powers, [*np.frombuffer(secret[16:], "<i8"), 0, 0, 0]]), multiples.device)
    values = multiples
    for level, (before, after) in enumerate(pairwise(sizes)):
        sums = torch.empty(5, after, dtype=torch.int64, device=multiples.device)
        kernels.fold[(triton.cdiv(after, LANES),)](
            values,
            sums,
            sent[level],
            before if level else len(multiples),
            after,
            after * _GROUP - before,
            message=level == 0,
            size=_GROUP,
            lanes=LANES,
        )
        values = sums
    tag = torch.empty(2, dtype=torch.int64, device=multiples.device)
    kernels.tag[(1,)](tag, values, sent[0], sent[-1], lanes=32)
    return tag


def _limbs(value: int) -> list[int]:
    return [value >> 26 * place & (1 << 26) - 1 for place in range(5)]


def _sent(values: NDArray[Any], device: torch.device) -> Tensor:
    return torch.from_numpy(values).to(device, non_blocking=True)


def keystream(key: Tensor, number: int, start: Tensor, blocks: int) -> Tensor:
    """(16 * blocks,) int32 of stream `number`, from block `start` on; start: (1,) int64."""
    words = torch.empty(16 * blocks, dtype=torch.int32, device=key.device)
    kernels.keystream[(triton.cdiv(blocks, LANES),)](words, key, start, number, blocks, lanes=LANES)
    return words


def drawn(lookups: int, start: int, key: Tensor, used: Tensor) -> tuple[Tensor, Tensor]:
    """(lookups,) int16 from lookup `start` on, and how many further words have been used since the first."""
    first, below, high, low, steps = _tables(key.device)
    bits = keystream(key, 0, torch.full_like(used, 2 * start // BLOCK), triton.cdiv(2 * lookups, BLOCK))
    bits = bits.view(torch.int16)
    programs = triton.cdiv(lookups, LANES)
    counts = torch.empty(programs, dtype=torch.int32, device=key.device)
    kernels.count_open[(programs,)](bits, first, counts, lookups, lanes=LANES)
    ends = counts.cumsum(0, dtype=torch.int64)
    blocks = triton.cdiv(lookups // _SPARE, BLOCK // 8) + 8
    further = keystream(key, 1, used // (BLOCK // 8), blocks).view(torch.int64)
    numbers = torch.empty(lookups, dtype=torch.int16, device=key.device)
    kernels.look_up[(programs,)](
        bits,
        further,
        key,
        first,
        below,
        high,
        low,
        ends - counts,
        used,
        numbers,
        lookups,
        BLOCK // 8 * blocks,
        len(high),
        table(BASE_WIDTH).least,
        steps=steps,
        lanes=LANES,
    )
    return numbers, used + ends[-1:]


def _add_levels(multiples: Tensor, numbers: Tensor, levels: int) -> None:
    """Combine each number of its levels, which lie as `DiscreteGaussian.take` draws them, CHUNK by CHUNK."""
    whole = len(multiples) // CHUNK * CHUNK
    for start, stop, width in ((0, whole, CHUNK), (whole, len(multiples), len(multiples) - whole)):
        if start < stop:
            drawn = numbers[levels * start : levels * stop].view(-1, levels, width)
            total = drawn[:, 0].long()
            for level in range(1, levels):
                total.mul_(FACTOR).add_(drawn[:, level])
            multiples[start:stop] += total.view(-1)


@lru_cache(maxsize=8)
def _tables(device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    """The arrays of `CumulativeTable.arrays` on that device, and how many halvings find a threshold."""
    first, below, high, low = (_sent(one, device) for one in table(BASE_WIDTH).arrays())
    return first, below, high, low, table(BASE_WIDTH).most_within.bit_length()
