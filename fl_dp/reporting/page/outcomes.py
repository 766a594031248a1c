"""What was answered to test records, and the points of its curves, with intervals at 95 %.

The intervals are of a share of counts, noised or not, in closed form, so that a page can be drawn again. a of
n = a + b records are counted, each count a sum of cells with normal noise of one deviation s: of k_a and of
k_b cells. With p the true share, a - p n has mean 0 and about the variance

    n p (1 - p) + s^2 ((1 - p)^2 k_a + p^2 k_b):

the records are a sample, and the cells are noised. The interval is all p for which (a - p n)^2 is at most
z^2 times that, which is a quadratic in p: Wilson's interval (1927) without noise, Fieller's (1954) for the
noise. If the noise of n is so large that n may be 0, all p remain, and nothing is told.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fl_dp.accounting.cost import SCHEMA
from fl_dp.reporting.run_files import read_part

Z = 1.959964  # deviations of an interval at 95 %
_MOST_BINS = _MOST_CLASSES = 64


@dataclass(frozen=True, slots=True)
class Share:
    """value: a / n, within 0 and 1; low, high: ends of its interval. None: too few records for the noise."""

    value: float | None
    low: float | None
    high: float | None


NOT_TOLD = Share(None, None, None)


def share(a: float, b: float, deviation: float = 0.0, cells: tuple[int, int] = (1, 1)) -> Share:
    """Of counts a and b; deviation: of the noise of each of the `cells` that they are sums of."""
    n, noise, (k_a, k_b) = a + b, (Z * deviation) ** 2, cells
    first = n * n + Z * Z * n - noise * (k_a + k_b)
    if n <= 0 or n * n <= noise * (k_a + k_b):
        return NOT_TOLD
    second = 2 * a * n + Z * Z * n - 2 * noise * k_a
    root = math.sqrt(max(0.0, second * second - 4 * first * (a * a - noise * k_a)))
    found = (a / n, (second - root) / (2 * first), (second + root) / (2 * first))
    return Share(*(min(1.0, max(0.0, one)) for one in found))


@dataclass(frozen=True, slots=True)
class Histogram:
    """Test records by their score, a probability, of the class. ends: bins + 1, from 0 to 1. places: the
    score that stands for each bin. counts: of others and of the class. deviation: of the noise of each.
    """

    __pydantic_config__: ClassVar = SCHEMA

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

        def above(column: int, start: int) -> Share:
            counts = [one[column] for one in self.counts]
            return share(sum(counts[start:]), sum(counts[:start]), self.deviation, (bins - start, start))

        return tuple(Point(self.ends[i], above(0, i), above(1, i)) for i in range(bins - 1, 0, -1))

    def calibration(self) -> tuple[Share, ...]:
        """Of each bin, the share of its records that are of the class."""
        return tuple(share(yes, no, self.deviation) for no, yes in self.counts)


@dataclass(frozen=True, slots=True)
class Point:
    """Of a ROC curve: the shares of the others, and of the class, whose score is `least` or more."""

    least: float
    others: Share
    own: Share


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What was answered to test records, as `tasks/outcomes.py` writes it, whose format it has.

    confusion: counts by class and by the class that was predicted, or none. withheld: why nothing is told;
    else empty.
    """

    __pydantic_config__: ClassVar = SCHEMA

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
    """From JSON; nothing for an empty one. ConfigError, naming `where`, if it is damaged."""
    return read_part(Outcomes, found, f"{where}, its outcomes") if found else Outcomes(1)
