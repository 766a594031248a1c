"""How a cell becomes a subgroup: by declared values or bounds, never by other cells."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fl_dp.data.subgroups import OTHER, Subgroups
from fl_dp.data.tables.cells import Cells, Value, codes_of, numbers_of, plain
from fl_dp.errors import DataError


@dataclass(frozen=True, slots=True)
class ByValue:
    """values: for each of `names`, the cells that mean it. Any other cell is OTHER."""

    names: tuple[str, ...]
    values: tuple[tuple[Value, ...], ...]

    def of(self, column: str, cells: Cells, decimal: str) -> Subgroups:
        return _subgroups(column, self.names, codes_of(cells, self.values, decimal))


@dataclass(frozen=True, slots=True)
class ByBand:
    """Numbers below the first bound, from each bound to the next, and from the last; else OTHER."""

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


def division_of(part: Mapping[str, Any]) -> Division | None:
    """The subgroups that a column declares; None if it declares none. DataError if they are malformed."""
    if "subgroups" in part and "bands" in part:
        raise DataError("expected subgroups or bands, not both.")
    if "bands" in part:
        return ByBand(_bands(part["bands"]))
    if "subgroups" not in part:
        return None
    names, values = named_values(part["subgroups"], "subgroups")
    if not names or not all(values):
        raise DataError("expected at least one subgroup, each with a value.")
    if OTHER in names:
        raise DataError(
            f"subgroups: {OTHER!r} is the name for all cells that are not declared; choose another name."
        )
    return ByValue(names, values)


def _bands(found: Any) -> tuple[float, ...]:
    numbers = isinstance(found, list) and all(type(bound) in (int, float) for bound in found)
    bounds = tuple(map(float, found)) if numbers else ()
    if not bounds or not all(low < high for low, high in pairwise((-math.inf, *bounds, math.inf))):
        raise DataError("expected bands = [BOUND, ...], public numbers, each above the one before it.")
    return bounds


def named_values(declared: Any, what: str) -> tuple[tuple[str, ...], tuple[tuple[Value, ...], ...]]:
    """Names, with the cells that mean each; in a list, each value is its own name."""
    if isinstance(declared, dict):
        names = tuple(declared)
        values = tuple(values_of(cells, f"{what}.{name}") for name, cells in declared.items())
    else:
        cells = values_of(declared, what)
        names, values = tuple(map(str, cells)), tuple((cell,) for cell in cells)
    distinct(values)
    return names, values


def values_of(found: Any, what: str) -> tuple[Value, ...]:
    if not isinstance(found, list) or not all(type(value) in (str, int, float) for value in found):
        raise DataError(f"{what}: expected a list of strings and numbers.")
    return tuple(found)


def distinct(groups: Sequence[Sequence[Value]]) -> None:
    """Raise DataError for duplicates. A text of digits and the number differ; the text takes precedence."""
    said = [value if isinstance(value, str) else (plain(str(value)),) for group in groups for value in group]
    if len(set(said)) != len(said):
        raise DataError("a value appears twice.")
