"""One public shape for every pass of a step: how many rows it has, and what fills it up.

A row's last bits may depend on the number of rows: matrix products of another size may take other kernels.
Under weights that make all logits rounding errors, that turns into gradients of full length. So every pass of
a client's steps has the same number of rows, whatever was drawn; rows that hold no record count for nothing.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

_STEP = 8  # numbers of rows that are tried are multiples of it


def filled_up(
    inputs: Tensor, labels: Tensor, rows: int, blank_labels: Callable[[int], Tensor]
) -> tuple[Tensor, Tensor]:
    """`inputs` (n, ...) and `labels` (n,) with zeros and blank labels behind them, (rows, ...) and (rows,).

    Always in memory of its own, which PyTorch aligns: a product may round otherwise elsewhere.
    """
    full = inputs.new_zeros(rows, *inputs.shape[1:])
    full[: len(inputs)] = inputs
    return full, torch.cat([labels, blank_labels(rows - len(labels)).to(labels)])


def best_rows(seconds: Callable[[int], float], expected: int, at_most: int) -> int:
    """The number of rows, up to `at_most`, with which a step of `expected` records takes the least time.

    seconds: that a pass of so many rows takes; asked for two sizes, between which it is taken as linear. Few
    rows waste little where a draw ends in the middle of a pass; many rows need few passes.
    """
    largest: int = max(1, min(at_most, _ceil(expected + 3 * math.sqrt(expected), _STEP) * _STEP))
    if largest <= _STEP:
        return largest
    first, last = seconds(_STEP), seconds(largest)
    a_row = max(0.0, (last - first) / (largest - _STEP))
    a_pass = max(0.0, first - _STEP * a_row)

    def cost(rows: int) -> float:  # of a step
        return expected_passes(expected, rows) * (a_pass + rows * a_row)

    sizes: list[int] = [largest, *range(largest // _STEP * _STEP, 0, -_STEP)]
    return min(sizes, key=cost)


def expected_passes(expected: int, rows: int) -> float:
    """The mean of n / rows, rounded up, over Poisson draws n of that mean."""
    spread = 9 * math.sqrt(expected) + 9
    draws = range(max(0, int(expected - spread)), int(expected + spread) + 1)
    chances = [math.exp(n * math.log(expected) - expected - math.lgamma(n + 1)) for n in draws]
    return sum(chance * _ceil(n, rows) for n, chance in zip(draws, chances, strict=True)) / sum(chances)


def _ceil(value: float, step: int) -> int:
    return math.ceil(value / step)
