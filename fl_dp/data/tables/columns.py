"""Kinds of columns, and how a cell becomes numbers: by the schema, never by other cells.

`cells` are those of one column, and `missing` (n,) marks those that count as missing.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fl_dp.data.tables.cells import Cells, Value, codes_of, numbers_of
from fl_dp.data.tables.division import Division
from fl_dp.errors import DataError

IfMissing = Literal["refuse", "drop", "encode"]
Mask = NDArray[np.bool_]
Numbers = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of the file. A column of this base class is explicitly ignored.

    missing: cells that mean a missing value. if_missing: whether a record with such a cell is refused or
    dropped, or the cell is encoded. decimal: the mark in numbers of the file. division: the subgroups that
    the column declares, if any. Sites need not agree on these two, which do not change what numbers mean.
    """

    name: str
    missing: tuple[Value, ...] = ("",)
    if_missing: IfMissing = "refuse"
    decimal: str = field(default=".", repr=False)
    division: Division | None = field(default=None, repr=False)

    def is_missing(self, cells: Cells) -> Mask:
        missing: Mask = codes_of(cells, [self.missing], self.decimal) == 0
        return missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Range(Column):
    """Numbers from `low` to `high`, scaled to [-1, 1]; values beyond are clipped."""

    low: float
    high: float

    def scaled(self, cells: Cells, missing: Mask) -> Numbers:
        """(n,) with 0, the range's middle, for missing cells; DataError for a cell that is no number."""
        numbers = numbers_of(cells, self.decimal)
        strange = np.isnan(numbers) & ~missing
        if strange.any():
            raise DataError(
                f"column {self.name!r}: some cells are neither numbers nor declared as missing; declare "
                f"them in the schema, or correct the file.{self._written(cells[strange])}"
            )
        return self._scale(np.where(missing, self.low, numbers), missing)

    def _scale(self, numbers: NDArray[np.float64], missing: Mask) -> Numbers:
        share = (np.clip(numbers, self.low, self.high) - self.low) / (self.high - self.low)
        return np.where(missing, 0.0, 2 * share - 1).astype(np.float32)

    def _written(self, strange: Cells) -> str:
        """What to say if cells are numbers with the other decimal mark."""
        other, mark = (",", "comma") if self.decimal == "." else (".", "point")
        if np.isnan(numbers_of(strange, other)).all():
            return ""
        return f" Some are numbers with a decimal {mark}: the schema's decimal = {other!r} reads those."


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Range):
    """An input. If missing cells are encoded, a second column marks them with 1."""

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.name, f"{self.name} missing") if self.if_missing == "encode" else (self.name,)

    def encode(self, cells: Cells, missing: Mask) -> Numbers:
        """(n, len(inputs))"""
        scaled = self.scaled(cells, missing)
        return np.stack([scaled, missing.astype(np.float32)][: len(self.inputs)], axis=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uneven(Number):
    """A number whose scale is not even, such as an income. points: increasing, from low to high; they are
    spaced evenly in [-1, 1], with linear interpolation between them.
    """

    points: tuple[float, ...]

    def _scale(self, numbers: NDArray[np.float64], missing: Mask) -> Numbers:
        even = np.interp(numbers, self.points, np.linspace(-1, 1, len(self.points)))
        return np.where(missing, 0.0, even).astype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Category(Column):
    """A categorical input, one-hot encoded.

    baseline: the value without a column, encoded as all zeros; None: every value has one. other: cells that
    are none of the values get a column of their own; otherwise they are refused.
    """

    categories: tuple[Value, ...]
    baseline: Value | None = None
    other: bool = True

    @property
    def _columns(self) -> tuple[str, ...]:
        more = ["other"] * self.other + ["missing"] * (self.if_missing == "encode")
        return (*(str(value) for value in self.categories), *more)

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(f"{self.name} = {self._columns[i]}" for i in self._kept)

    @property
    def _kept(self) -> list[int]:
        count = len(self._columns)
        return [i for i in range(count) if i >= len(self.categories) or self.categories[i] != self.baseline]

    def encode(self, cells: Cells, missing: Mask) -> Numbers:
        """(n, len(inputs)); DataError for a cell that is none of the values, if there is no `other`."""
        codes = codes_of(cells, [[value] for value in self.categories], self.decimal)
        if not self.other and ((codes < 0) & ~missing).any():
            raise _unknown(self.name)
        codes[codes < 0] = len(self.categories)
        codes[missing] = len(self._columns) - 1
        ones = np.eye(len(self._columns), dtype=np.float32)[codes]
        return ones[:, self._kept]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target(Range):
    """A number to predict, scaled as inputs are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label(Column):
    """A class to predict. values: for each of `classes`, the cells that mean it."""

    classes: tuple[str, ...]
    values: tuple[tuple[Value, ...], ...]

    def codes(self, cells: Cells) -> NDArray[np.int64]:
        """(n,) class indices; DataError for a cell that is none of the classes."""
        codes = codes_of(cells, self.values, self.decimal)
        if (codes < 0).any():
            raise _unknown(self.name)
        return codes


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(Column):
    """Whose record it is; for `partition = "by:COLUMN"`. The test split takes whole groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site(Column):
    """Where a record is; used only for `partition = "by:COLUMN"`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubgroupColumn(Column):
    """The subgroup of a record; no input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitColumn(Column):
    """Whether a record is for training or for testing."""

    train: tuple[Value, ...]
    test: tuple[Value, ...]

    def is_test(self, cells: Cells) -> Mask:
        """(n,); DataError for a cell that means neither."""
        codes = codes_of(cells, [self.train, self.test], self.decimal)
        if (codes < 0).any():
            raise _unknown(self.name)
        testing: Mask = codes == 1
        return testing


def _unknown(name: str) -> DataError:
    return DataError(
        f"column {name!r}: some cells have values that the schema does not list; add them there, or "
        "correct the file."
    )
