"""Values, classes and subgroups as declared in a schema file; DataError for anything else."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from fl_dp.data.subgroups import OTHER
from fl_dp.data.tables.cells import Value, plain
from fl_dp.data.tables.division import ByBand, ByValue, Division
from fl_dp.errors import DataError


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
        raise DataError(f"{what}: expected a list of texts and numbers.")
    return tuple(found)


def distinct(groups: Sequence[Sequence[Value]]) -> None:
    """Raise DataError for duplicates. A text of digits and its number are two values: the text wins."""
    said = [value if isinstance(value, str) else (plain(str(value)),) for group in groups for value in group]
    if len(set(said)) != len(said):
        raise DataError("a value appears twice.")
