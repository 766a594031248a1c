"""How the cells of a column become subgroups: by declared values or bounds, never by other cells."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from fl_dp.data.subgroups import OTHER, Subgroups
from fl_dp.data.tables.cells import Cells, Value, codes_of, numbers_of


@dataclass(frozen=True, slots=True)
class ByValue:
    """values: for each of `names`, the cells that mean it. Any other cell is OTHER."""

    names: tuple[str, ...]
    values: tuple[tuple[Value, ...], ...]

    def of(self, column: str, cells: Cells, decimal: str) -> Subgroups:
        return _subgroups(column, self.names, codes_of(cells, self.values, decimal))


@dataclass(frozen=True, slots=True)
class ByBand:
    """Numbers below the first of `bounds`, from each to the next, and from the last; no number: OTHER."""

    bounds: tuple[float, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """ "under 50", "50 to under 65", "65 and over"."""
        said = [f"{bound:.15g}" for bound in self.bounds]
        between = [f"{low} to under {high}" for low, high in pairwise(said)]
        return (f"under {said[0]}", *between, f"{said[-1]} and over")

    def of(self, column: str, cells: Cells, decimal: str) -> Subgroups:
        numbers = numbers_of(cells, decimal)
        codes = np.searchsorted(self.bounds, numbers, side="right").astype(np.int64)
        return _subgroups(column, self.names, np.where(np.isnan(numbers), -1, codes))


Division = ByValue | ByBand


def _subgroups(column: str, names: tuple[str, ...], codes: NDArray[np.int64]) -> Subgroups:
    """codes: -1 for none of the names."""
    return Subgroups(column, (*names, OTHER), torch.from_numpy(np.where(codes < 0, len(names), codes)))
