"""One public shape for every pass of a step: how many rows it has, and how it is padded.

A row's last bits may depend on the number of rows, because matrix products of another size may use other
kernels. Under weights that make all logits rounding errors, this becomes a gradient of full length. So every
pass of a client's steps has the same number of rows, whatever was drawn; padding rows count for nothing.

The padding consists of copies of a record in the pass. Weights could be crafted that let all records pass,
but make any other example overflow, or make the model raise on it. Then a pass without padding would count,
and any other would not (`tests/attacks/test_a_filling_that_decides.py`).
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_STEP = 8  # numbers of rows are multiples of it
_MOST, _MOST_ON_GPU = 128, 1024  # rows: on CPUs, larger numbers were not tested for steady rows
_FEW, _LONG = 16, 0.2  # rows to try if a pass with the largest number takes this many seconds


def most_rows(device: torch.device) -> int:
    """The most rows of a pass. Rounding sets no limit (`sum_error.py`); the rows in use are tested first."""
    return _MOST if device.type == "cpu" else _MOST_ON_GPU


def steady(rows: int, most: int = _MOST) -> int:
    """The largest number of rows, up to `rows`, at which a row's bits were seen not to depend on its place.

    That is a multiple of 8, or 4, or 1. At other numbers, with one output, a row's bits do depend on its
    place (5 to 100 rows, MKL's strict mode). most: see `most_rows`.
    """
    if rows >= _STEP:
        return min(rows, most) // _STEP * _STEP
    return 4 if rows >= 4 else 1


def instead_of(rows: int, at_most: int) -> list[int]:
    """Other numbers of rows to try, up to `at_most`, if a row's bits depend on its place with `rows`.

    First come those at which every tensor has whole vectors. Other code computes the remainder at a tensor's
    end; with two threads, at the end of each thread's half.
    """
    return [other for other in (64, 128, 32, 96, 16, 8, 4) if other <= at_most and other != rows]


def sends_ahead(device: torch.device) -> bool:
    """Whether the device copies from pinned memory while the host goes on. Not relied on for Apple's GPUs."""
    return device.type not in ("cpu", "mps")


def filled(rows: int, batch: Sequence[Tensor], device: torch.device | None = None) -> tuple[Tensor, ...]:
    """The tensors (n, ...) of n >= 1 examples, padded with copies of the first: (rows, ...).

    Always in new memory, which PyTorch aligns: in other memory a product may round differently. device: of
    the pass. A GPU copies from pinned memory while the host goes on; for other memory the host would wait.
    """
    pinned = device is not None and sends_ahead(device)
    full = [
        part.new_empty(rows, *part.shape[1:], pin_memory=pinned and part.device.type == "cpu")
        for part in batch  # a data set of the user's own may lie on a GPU already
    ]
    for new, part in zip(full, batch, strict=True):
        new[: len(part)] = part
        new[len(part) :] = part[0]
    return tuple(full)


def best_rows(seconds: Callable[[int], float], expected: int, at_most: int, most: int = _MOST) -> int:
    """The `steady` number of rows, up to `at_most`, with which a step of `expected` records is fastest.

    seconds: time of a pass, by its rows. With few rows, less is wasted if a draw ends in the middle of a
    pass; with many, few passes are needed. If a pass takes long, only two sizes are tried.
    """
    largest = steady(min(at_most, _ceil(expected + 3 * math.sqrt(expected), _STEP) * _STEP), most)
    if largest <= _STEP:
        return largest
    taken = {largest: seconds(largest)}
    for rows in (_FEW,) if taken[largest] > _LONG else _sizes(largest):
        if rows < largest:
            taken[rows] = seconds(rows)
    return min(taken, key=lambda rows: expected_passes(expected, rows) * taken[rows])


def _sizes(largest: int) -> list[int]:
    """Sizes worth trying: small ones, doubled ones, and a few below the largest, which a draw may fill."""
    doubled = [_STEP << power for power in range(20) if _STEP << power < largest]
    return sorted({*doubled, 3 * _STEP, 6 * _STEP, largest - _STEP, largest - 2 * _STEP} - {0}, reverse=True)


def expected_passes(expected: int, rows: int) -> float:
    """The mean of ceil(n / rows) over Poisson-distributed n with mean `expected`."""
    spread = 9 * math.sqrt(expected) + 9
    draws = range(max(0, int(expected - spread)), int(expected + spread) + 1)
    chances = [math.exp(n * math.log(expected) - expected - math.lgamma(n + 1)) for n in draws]
    return sum(chance * _ceil(n, rows) for n, chance in zip(draws, chances, strict=True)) / sum(chances)


def _ceil(value: float, step: int) -> int:
    return math.ceil(value / step)
