"""The weighted sum of the updates of an actor's clients, added one after the other."""

from collections.abc import Mapping

import torch
from torch import Tensor

from fl_dp.simulation.work import Array

BLOCK = 2**16  # numbers converted to float64 at a time; they fit the processor's cache


class UpdateSum:
    """Sum of weight * update, in float64, whose error is far below the rounding of the float32 updates.

    The integers of a secure sum add up in int64, and each client counts once.
    """

    def __init__(self) -> None:
        self._totals: dict[str, Tensor] = {}

    def add(self, update: Mapping[str, Tensor], weight: float) -> None:
        """Add one client's arrays; every client's have the same names and shapes."""
        for name, array in update.items():
            whole = array.dtype == torch.int64
            if name not in self._totals:
                kind = torch.int64 if whole else torch.float64
                self._totals[name] = torch.zeros(array.shape, dtype=kind, device=array.device)
            if whole:
                self._totals[name] += array
            else:
                _add(self._totals[name], array, weight)

    def take(self) -> dict[str, Array]:
        """The sum since the last call, by name; empty if nothing was added."""
        taken = {name: total.cpu().numpy() for name, total in self._totals.items()}
        self._totals = {}
        return taken


def _add(total: Tensor, array: Tensor, weight: float) -> None:
    """Add in blocks, which takes half the time: adding float32 to float64 at once converts one by one."""
    if array.numel() <= BLOCK:
        total.add_(array.to(torch.float64), alpha=weight)
        return
    total, array = total.view(-1), array.reshape(-1)
    for start in range(0, len(array), BLOCK):
        block = slice(start, start + BLOCK)
        total[block].add_(array[block].to(torch.float64), alpha=weight)
