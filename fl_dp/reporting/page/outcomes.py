"""The model's answers to test records, and the points of their curves, with 95 % intervals.

Each interval is of a share of counts, noised or not, in closed form, so that a page can be drawn again. Of
n = a + b records, a are counted. Each count is a sum of cells, k_a and k_b, that have normal noise of one
deviation s. With p the true share, a - p n has mean 0 and about the variance

    n p (1 - p) + s^2 ((1 - p)^2 k_a + p^2 k_b):

the records are a sample, and the cells are noised. The interval is all p for which (a - p n)^2 is at most
z^2 times that, which is a quadratic in p: Wilson's interval (1927) without noise, Fieller's (1954) for the
noise. If the noise is so large that n may be 0, all p remain, and nothing is reported.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field

from fl_dp.reporting.reports import Estimate
from fl_dp.reporting.run_files import read_part

Z = 1.959964  # deviations of an interval at 95 %
_MOST_BINS = _MOST_CLASSES = 64


NOT_TOLD = Estimate(None, None, None)


def share(a: float, b: float, deviation: float = 0.0, cells: tuple[int, int] = (1, 1)) -> Estimate:
    """The share of a in a + b. Each is a sum of so many `cells`, which have noise of this deviation."""
    n, noise, (k_a, k_b) = a + b, (Z * deviation) ** 2, cells
    first = n * n + Z * Z * n - noise * (k_a + k_b)
    if n <= 0 or n * n <= noise * (k_a + k_b):
        return NOT_TOLD
    second = 2 * a * n + Z * Z * n - 2 * noise * k_a
    root = math.sqrt(max(0.0, second * second - 4 * first * (a * a - noise * k_a)))
    found = (a / n, (second - root) / (2 * first), (second + root) / (2 * first))
    return Estimate(*(min(1.0, max(0.0, one)) for one in found))


@dataclass(frozen=True, slots=True)
class Histogram:
    """Test records by their score for the class, a probability. ends: bins + 1, from 0 to 1. places: the
    score that stands for each bin. counts: of others and of the class. deviation: of each count's noise.
    """

    of_class: Annotated[str, Field(alias="class")]
    ends: tuple[float, ...]
    places: tuple[float, ...]
    counts: tuple[tuple[float, float], ...]
    deviation: float

    def __post_init__(self) -> None:
        bins, rising = len(self.counts), all(low < high for low, high in pairwise(self.ends))
        if (
            not 2 <= bins <= _MOST_BINS
            or (len(self.ends), len(self.places)) != (bins + 1, bins)
            or not rising
        ):
            raise ValueError("no bins")
        if self.deviation < 0 or not all(0 <= one <= 1 for one in (*self.ends, *self.places)):
            raise ValueError("no probabilities")

    def curve(self) -> "tuple[Point, ...]":
        """A point for each inner end of a bin, from the largest score to the least."""
        bins = len(self.counts)

        def above(column: int, start: int) -> Estimate:
            counts = [one[column] for one in self.counts]
            return share(sum(counts[start:]), sum(counts[:start]), self.deviation, (bins - start, start))

        return tuple(Point(self.ends[i], above(0, i), above(1, i)) for i in range(bins - 1, 0, -1))

    def calibration(self) -> tuple[Estimate, ...]:
        """For each bin, the share of its records that are of the class."""
        return tuple(share(yes, no, self.deviation) for no, yes in self.counts)


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a ROC curve: the shares of the others, and of the class, with a score of `least` or more."""

    least: float
    others: Estimate
    own: Estimate


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The model's answers to test records, in the format of `tasks/outcomes.py`.

    confusion: counts by class and by predicted class, or none. withheld: why nothing is reported; else empty.
    """

    format: Literal[1]
    classes: tuple[str, ...] = ()
    confusion: tuple[tuple[float, ...], ...] = ()
    scores: tuple[Histogram, ...] = ()
    withheld: str = ""

    def __post_init__(self) -> None:
        sides = {len(self.confusion), *map(len, self.confusion)}
        if len(self.classes) > _MOST_CLASSES or (self.confusion and sides != {len(self.classes)}):
            raise ValueError("no row and column for each class")
        if self.scores and not self.classes:
            raise ValueError("scores of no classes")
        if min((one for row in self.confusion for one in row), default=0) < 0:
            raise ValueError("a negative count")


WITHHELD = {
    "few": "hidden, as a class or range of scores has too few test records, or could be worked out.",
    "no-numbers": "not drawn, as some scores are not finite.",
}  # why there are no curves on the server's test data


def outcomes_of(found: Mapping[str, object], where: str) -> Outcomes:
    """The outcomes in the JSON, perhaps none. ConfigError, naming `where`, if it is damaged."""
    return read_part(Outcomes, found, f"{where}, its outcomes") if found else Outcomes(1)
