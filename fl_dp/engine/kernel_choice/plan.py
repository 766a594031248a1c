"""The fastest kernels, for all parameters together, with which a step fits a memory.

Finding the fastest kernels under a memory limit is a knapsack problem. With a price on memory, each
parameter's kernel is found by itself: the one with the least time plus price times memory (Everett 1963,
"Generalized Lagrange multiplier method"). Such a plan is the fastest of all that keep no more than it does.
"""

import math
from collections.abc import Callable, Iterable
from itertools import permutations

import torch

from fl_dp.engine.kernel_choice.memory import is_out_of_memory, peak_bytes
from fl_dp.engine.kernel_choice.table import KernelRow

Plan = dict[str, str]  # parameter -> kernel
_BEYOND = 1 + 1e-9  # just above a price at which two kernels cost the same


def plans(rows: Iterable[KernelRow]) -> list[Plan]:
    """Plans from the fastest to the one that keeps least; each is the fastest of all that keep as little.

    Only kernels that were tried are chosen anew, and not those of parameters of little memory. Memory means
    the bytes that are kept for an example; what a kernel takes only for a moment is not counted.
    """
    rows = list(rows)
    prices = {0.0} | {price * _BEYOND for row in rows for price in _prices(row)}
    found: list[Plan] = []
    for price in sorted(prices):
        plan = {row.parameter: _kernel(row, price) for row in rows}
        if not found or plan != found[-1]:
            found.append(plan)
    return found


def _prices(row: KernelRow) -> Iterable[float]:
    """The seconds per byte at which a kernel that is slower but keeps less becomes worthwhile."""
    if row.seconds is None or row.kept is None:
        return
    for fast, thrifty in permutations(row.seconds, 2):
        slower, saved = row.seconds[thrifty] - row.seconds[fast], row.kept[fast] - row.kept[thrifty]
        if slower >= 0 and saved > 0:
            yield slower / saved


def _kernel(row: KernelRow, price: float) -> str:
    if row.seconds is None or row.kept is None:
        return row.kernel
    seconds, kept = row.seconds, row.kept
    return min(seconds, key=lambda kernel: (seconds[kernel] + price * kept[kernel], kept[kernel]))


def fitted(
    rows: Iterable[KernelRow], run: Callable[[Plan], object], room: float, device: torch.device
) -> tuple[Plan, bool]:
    """The fastest of the `plans` with which `run` holds at most `room` bytes, and whether there is one.

    Otherwise the last plan, which keeps least. run: a step with these kernels; the one with the kernels of
    `rows` has been run before. If there is no choice, nothing is run, and it is then not known whether that
    fits. A plan that is returned as fitting was seen to fit. Found by bisection, assuming that a plan that
    keeps less never has the higher peak.
    """
    found = plans(rows)
    low, high = 0, len(found)  # all before `low` were too large; all from `high` on fit
    while low < high and len(found) > 1:
        middle = low if low == 0 else (low + high) // 2  # mostly the fastest fits
        if _peak(run, found[middle], device) <= room:
            high = middle
        else:
            low = middle + 1
    return (found[high], True) if high < len(found) else (found[-1], len(found) == 1)


def _peak(run: Callable[[Plan], object], plan: Plan, device: torch.device) -> float:
    try:
        return peak_bytes(lambda: run(plan), device)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
    return math.inf
