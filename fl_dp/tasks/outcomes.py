"""Counts of a model's answers to test records, which the page draws. None reveals a single record.

Two sources write the same format, as JSON (`reporting/page/outcomes.py` reads it):

- the server's own test records. Confusion counts, and for two classes a histogram of scores by class, both
  withheld as `docs/decisions/0012-what-is-told-of-few.md` says;
- the sites' noised histograms (`score_histogram.py`), added up: post-processing alone.

What is reported of the server's records is a table: classes by bins of the score, or by predicted classes.
Somebody may know a record's class and want its score; or know its score, since the model is public, and want
its class. So each row and each column has no records, or records of at least LEAST_CELL units; smaller ones
are merged with others. Besides subgroups, classes and columns are reported only if `told_cells` then hides
nothing more: each of them is one more way to divide the records.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl_dp.data.tensor_data import TensorData
from fl_dp.form import Form
from fl_dp.records import LEAST_CELL
from fl_dp.tasks.score_histogram import EDGES, MIDDLES, Layout, edges_of
from fl_dp.tasks.small_cells import Codes, told_cells

FORMAT = 1
MOST_CLASSES = 20  # with a confusion matrix
MOST_CURVES = 6  # classes with a curve of their own, each against the rest
_BINS = 32  # the finest; small ones are merged
_DIGITS = 6  # of a probability
_OTHERS = "other classes"

FEW = "few"  # why nothing is reported: it would reveal few test records
NO_NUMBERS = "no-numbers"  # the model's outputs are not finite

Scores = NDArray[np.float64]
Outcomes = dict[str, Any]


def are_told(form: Form) -> bool:
    """Whether anything is reported of test records of this form."""
    return form.targets == "class" and 2 <= form.outputs <= MOST_CLASSES


def of_test_records(data: TensorData, outputs: Scores, owners: Sequence[str] = ()) -> Outcomes:
    """What may be reported of the server's test records; `are_told` holds for their form.

    outputs: (n, classes), in the order of the data; for two classes their difference is the score's log-odds.
    owners: the person of each record, if the unit is a person.
    """
    if not np.isfinite(outputs).all():
        return _withheld(NO_NUMBERS)
    records = _Records(data, tuple(owners))
    size = outputs.shape[1]
    told = records.told_beside(records.y, size) or [False] * size
    return (_of_two if size == 2 else _of_several)(records, told, outputs)


def of_sites(layout: Layout, cells: Scores, deviation: float, classes: Sequence[str]) -> Outcomes:
    """What is reported of the sites' sum of noised, weighted counts (layout.size,); empty for many classes
    and for tokens. deviation: of the noise in each cell.
    """
    if layout.tokens or layout.classes > MOST_CURVES:
        return {}
    names = _names(classes, layout.classes)
    scores = []
    for place, block in enumerate(layout.blocks):
        if block.of_class >= 0:
            counts = layout.counts_of(place, cells)
            found = _histogram(names[block.of_class], _ends(EDGES), MIDDLES, counts)
            scores.append({**found, "deviation": float(deviation / block.weight)})
    return {"format": FORMAT, "classes": names, "scores": scores}


class _Records:
    """Test records, and which cells of them may be reported. owners: the person of each record, or none."""

    def __init__(self, data: TensorData, owners: tuple[str, ...]) -> None:
        self.classes, self.y = data.classes, data.y.numpy()
        self._owners = owners
        self._subgroups = [one.codes.numpy() for one in data.subgroups]
        self._sizes = tuple(len(one.labels) for one in data.subgroups)
        self._plain = self._told(self._subgroups, self._sizes)

    def _told(self, columns: Sequence[Codes], sizes: tuple[int, ...]) -> list[list[bool]]:
        if not columns:
            return []
        codes = np.stack(columns, axis=1)
        return [mask.tolist() for mask in told_cells(codes, sizes, self._owners)]

    def told_beside(self, codes: Codes, size: int) -> list[bool] | None:
        """Which cells of one more column may be reported; None if a subgroup would then have to be hidden."""
        first, *others = self._told([codes, *self._subgroups], (size, *self._sizes))
        return first if others == self._plain else None

    def units(self, some: NDArray[np.bool_]) -> int:
        """How many records, or persons, are marked."""
        return len({self._owners[i] for i in np.flatnonzero(some)}) if self._owners else int(some.sum())

    def fit(self, codes: Codes, size: int) -> bool:
        """Whether a column of `size` cells may be reported with all cells that have records."""
        told = self.told_beside(codes, size)
        return told is not None and all(told[i] for i in np.unique(codes))


def _of_two(records: _Records, told: Sequence[bool], outputs: Scores) -> Outcomes:
    """The histogram of the second class's score. Its middle edge, if kept, separates the two answers."""
    fine_edges = edges_of(_BINS)
    odds = outputs[:, 1] - outputs[:, 0]
    fine = np.searchsorted(fine_edges, odds, side="left")  # equal scores: the first class, as argmax
    for edges in _candidates(records, fine) if all(told) else ():
        bins = np.searchsorted(edges[1:-1], fine, side="right")
        if records.fit(bins, len(edges) - 1):
            counts = np.zeros((len(edges) - 1, 2), np.int64)
            np.add.at(counts, (bins, records.y), 1)
            ends = _ends(fine_edges)[edges]
            sums = np.bincount(bins, _probability(odds), len(counts))
            totals = counts.sum(1)
            places = np.where(totals, sums / np.maximum(totals, 1), (ends[1:] + ends[:-1]) / 2)
            names = _names(records.classes, 2)
            scores = _histogram(names[1], ends, places, counts)
            return {"format": FORMAT, "classes": names, "scores": [scores]}
    return _withheld(FEW)


def _candidates(records: _Records, fine: Codes) -> Iterator[list[int]]:
    """The first fine bin of each bin, and the end; candidates with the finest bins come first.

    With a rare class hardly a score is above the middle. If one answer has too few records, their bin joins
    its neighbour. An accuracy may reveal these few, and so the neighbour, as the difference: the neighbour
    alone must be large enough, too.
    """
    half, most = _BINS // 2, 2 * max(LEAST_CELL, len(fine))
    sides = [fine < half, fine >= half]
    rare = [one for one in sides if 0 < records.units(one) < LEAST_CELL]
    least = LEAST_CELL
    while least <= most:
        edges = _merged(fine, least)
        if not rare:
            yield edges
        elif len(rare) == 1 and len(edges) > 3:
            place = edges.index(half)
            low, high = edges[place - 1 : place + 2 : 2]
            if records.units((fine >= low) & (fine < high) & ~rare[0]) >= LEAST_CELL:
                yield [*edges[:place], *edges[place + 1 :]]
        least *= 2


def _merged(fine: Codes, least: int) -> list[int]:
    """The first fine bin of each group of neighbours, and the end. Each group has `least` records, counted
    from both ends to the middle. The rest joins its neighbour on its side; a side with fewer is one group.
    """
    half, sizes = _BINS // 2, np.bincount(fine, minlength=_BINS).tolist()
    high = [_BINS - start for start in _groups(sizes[: -half - 1 : -1], least)]
    return [*_groups(sizes[:half], least), half, *reversed(high)]


def _groups(sizes: Sequence[int], least: int) -> list[int]:
    """The first bin of each group; the rest at the end belongs to the last group."""
    starts = [0]
    for one in range(len(sizes)):
        if sum(sizes[starts[-1] : one + 1]) >= least:
            starts.append(one + 1)
    return starts[:-1] or [0]


def _of_several(records: _Records, told: Sequence[bool], outputs: Scores) -> Outcomes:
    """The confusion matrix, with classes merged that are hidden or would have small rows or columns."""
    answers, single = outputs.argmax(1), {i for i, one in enumerate(told) if one}
    sizes = np.bincount(answers, minlength=outputs.shape[1])
    while single:
        place = {one: i for i, one in enumerate(sorted(single))}
        pooled = len(single) < outputs.shape[1]
        y, said = (np.array([place.get(one, len(place)) for one in codes]) for codes in (records.y, answers))
        size = len(place) + pooled
        if records.fit(said, size):
            counts = np.zeros((size, size), np.int64)
            np.add.at(counts, (y, said), 1)
            names = _names(records.classes, outputs.shape[1])
            shown = [names[one] for one in place] + [_OTHERS] * pooled
            return {"format": FORMAT, "classes": shown, "confusion": counts.tolist()}
        single.remove(min(single, key=lambda one: (sizes[one] == 0, sizes[one])))
    return _withheld(FEW)


def _withheld(why: str) -> Outcomes:
    return {"format": FORMAT, "withheld": why}


def _histogram(of_class: str, ends: Scores, places: Scores, counts: NDArray[Any]) -> Outcomes:
    """ends: (bins + 1,) probabilities at the bins' ends; places: (bins,) those that the bins stand for."""
    return {
        "class": of_class,
        "ends": [round(float(one), _DIGITS) for one in ends],
        "places": [round(float(one), _DIGITS) for one in places],
        "counts": [[round(float(one), 3) for one in row] for row in counts],
        "deviation": 0.0,
    }


def _ends(edges: Scores) -> Scores:
    return np.array([0.0, *_probability(edges), 1.0])


def _probability(odds: Scores) -> Scores:
    found: Scores = 1 / (1 + np.exp(-np.clip(odds, -700, 700)))
    return found


def _names(classes: Sequence[str], count: int) -> list[str]:
    return list(classes) if len(classes) == count else [str(i) for i in range(count)]
