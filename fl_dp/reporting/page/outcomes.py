"""What was answered to test records, from a run's files, and the points of its curves, with intervals."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fl_dp.clean_text import clean
from fl_dp.errors import ConfigError
from fl_dp.reporting.page.facts import Histogram, Outcomes
from fl_dp.reporting.page.intervals import Share, share

FORMAT = 1  # as in fl_dp/tasks/outcomes.py, which needs PyTorch
_MOST_BINS = 64
_MOST_CLASSES = 64


def read_outcomes(found: Mapping[str, Any], where: str) -> Outcomes:
    """From JSON; nothing for an empty one. ConfigError, naming `where`, for damage and for another format."""
    if not found:
        return Outcomes()
    if found.get("format") != FORMAT:
        raise ConfigError(
            f"{where}: its outcomes have the format {clean(str(found.get('format')), 20)}, and this fl_dp "
            f"reads {FORMAT}: read the run with the fl_dp that wrote it, or a later one."
        )
    try:
        return _outcomes(found)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ConfigError(f"{where}: its outcomes are damaged.") from None


def _outcomes(found: Mapping[str, Any]) -> Outcomes:
    if "withheld" in found:
        return Outcomes(withheld=clean(str(found["withheld"])))
    classes = tuple(clean(str(one)) for one in found["classes"])
    confusion = tuple(tuple(map(_number, row)) for row in found.get("confusion", ()))
    if len(classes) > _MOST_CLASSES or (
        confusion and {len(classes)} != {len(confusion), *map(len, confusion)}
    ):
        raise ValueError("no row and column for each class")
    if min((one for row in confusion for one in row), default=0) < 0:
        raise ValueError("a negative count")
    return Outcomes(classes, confusion, tuple(map(_histogram, found.get("scores", ()))))


def _histogram(found: Mapping[str, Any]) -> Histogram:
    made = Histogram(
        clean(str(found["class"])),
        tuple(map(_number, found["ends"])),
        tuple(map(_number, found["places"])),
        tuple((_number(no), _number(yes)) for no, yes in found["counts"]),
        _number(found["deviation"]),
    )
    bins, ends = len(made.counts), made.ends
    rising = all(low < high for low, high in pairwise(ends))
    if not 2 <= bins <= _MOST_BINS or len(ends) != bins + 1 or len(made.places) != bins or not rising:
        raise ValueError("no bins")
    if made.deviation < 0 or not all(0 <= one <= 1 for one in (*ends, *made.places)):
        raise ValueError("no probabilities")
    return made


def _number(value: object) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):  # type: ignore[arg-type]
        raise ValueError("no number")
    return float(value)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Point:
    """Of a ROC curve: the shares of the others, and of the class, whose score is `least` or more."""

    least: float
    others: Share
    own: Share


def curve(found: Histogram) -> tuple[Point, ...]:
    """A point for each inner end of a bin, from the largest score to the least."""
    bins = len(found.counts)

    def above(column: int, start: int) -> Share:
        counts = [one[column] for one in found.counts]
        return share(sum(counts[start:]), sum(counts[:start]), found.deviation, (bins - start, start))

    return tuple(Point(found.ends[i], above(0, i), above(1, i)) for i in range(bins - 1, 0, -1))


def calibration(found: Histogram) -> tuple[Share, ...]:
    """Of each bin, the share of its records that are of the class."""
    return tuple(share(yes, no, found.deviation) for no, yes in found.counts)


WITHHELD = {
    "few": "hidden, as a class or range of scores has too few test records, or could be worked out.",
    "no-numbers": "not drawn, as some scores are not finite.",
}  # why there are no curves on the server's test data
