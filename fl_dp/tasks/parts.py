"""Mean scores over each class and subgroup of a test set, as far as they may be reported."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fl_dp.data.subgroups import OTHER, Subgroups
from fl_dp.tasks.small_cells import Mask, told_by_class, told_cells

Each = Callable[[Tensor, Tensor], Tensor]  # outputs and targets (n, ...) to scores (n,)
Within = Callable[[np.ndarray, np.ndarray], float]  # scores (n,) and classes (n,) to a metric, NaN: undefined
CLASS, SUBGROUP = "class", "subgroup"
ALL = "all"  # names the value of all examples beside those of subgroups, which are COLUMN = LABEL


class Score(NamedTuple):
    """How a metric is reported by parts. part: CLASS or SUBGROUP. within: computes it from a part's scores
    and classes, and so reveals classes within the part; None: the mean of the part's scores.
    """

    part: str
    each: Each
    within: Within | None = None


@dataclass
class Parts:
    """Scores of the examples seen so far, in the order of the data.

    scores: by the metric's name. classes: their number; 0 if targets are no classes. by_class: whether
    anything reported depends on classes, apart from scores with `within`, for which no other score is hidden.
    subgroups: of all examples, or none. owners: the person of each example, if the unit is a person.
    """

    scores: Mapping[str, Score]
    classes: int = 0
    by_class: bool = False
    subgroups: tuple[Subgroups, ...] = ()
    owners: tuple[str, ...] = ()
    _seen: dict[str, list[Tensor]] = field(default_factory=dict)
    _targets: list[Tensor] = field(default_factory=list)

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        for name, score in self.scores.items():
            self._seen.setdefault(name, []).append(score.each(outputs, targets).double().cpu())
        if self.scores and self.classes:
            self._targets.append(targets.cpu())

    def told(self, labels: Sequence[str]) -> tuple[dict[str, dict[str, float | None]], bool]:
        """For each metric its values by part, as METRIC[NAME]; and whether a class with examples is hidden.

        A value is None if it may not be reported, or is not finite. A metric of classes within subgroups also
        has METRIC[all]. labels: of the classes; numbers if their count differs.
        """
        of_subgroups = tuple(
            _Column(SUBGROUP, one.full_names, one.codes.numpy(), f"{one.name} = {OTHER}")
            for one in self.subgroups
        )
        of_classes = self._of_classes(labels)
        columns = self._told((*of_classes, *of_subgroups) if self.by_class else of_subgroups)
        if not self.scores or not columns:
            return {}, False
        hides = any(column.hides and column.part == CLASS for column in columns)
        if of_subgroups and any(score.within for score in self.scores.values()):
            columns = self._told_by_class(columns, of_classes[0], of_subgroups)
        classes = of_classes[0].codes if of_classes else np.zeros(0, dtype=np.int64)
        return {name: dict(self._values(name, columns, classes)) for name in self.scores}, hides

    def _values(
        self, metric: str, columns: Sequence["_Column"], classes: np.ndarray
    ) -> Iterator[tuple[str, float | None]]:
        score, seen = self.scores[metric], torch.cat(self._seen[metric]).numpy()
        parts = [column for column in columns if column.part == score.part]
        if score.within is None or not parts:
            found = [item for column in parts for item in column.means(seen)]
        else:
            of_all = any(column.by_class is not None for column in parts)
            found = [(ALL, score.within(seen, classes) if of_all else math.nan)]
            found += [item for column in parts for item in column.within(score.within, seen, classes)]
        for name, value in found:
            yield f"{metric}[{name}]", value if math.isfinite(value) else None

    def _told(self, columns: Sequence["_Column"]) -> tuple["_Column", ...]:
        """The columns, each with the cells that may be reported."""
        if not columns:
            return ()
        codes = np.stack([column.codes for column in columns], axis=1)
        masks = told_cells(codes, tuple(len(column.names) for column in columns), self.owners)
        return tuple(replace(column, told=mask) for column, mask in zip(columns, masks, strict=True))

    def _told_by_class(
        self, columns: Sequence["_Column"], classes: "_Column", subgroups: Sequence["_Column"]
    ) -> tuple["_Column", ...]:
        """The columns, with `by_class` where more than means may be reported, see `told_by_class`."""
        first, *finer = self._told((classes, *subgroups))
        others, plain = columns[: -len(subgroups)], columns[-len(subgroups) :]
        hides_more = any((one.told != other.told).any() for one, other in zip(plain, finer, strict=True))
        if first.hides or hides_more:
            return tuple(columns)
        codes = np.stack([column.codes for column in finer], axis=1)
        fine = told_by_class(codes, tuple(column.told for column in finer), first.codes, self.owners)
        by_class = (column.told & is_fine for column, is_fine in zip(finer, fine, strict=True))
        return (*others, *(replace(one, by_class=mask) for one, mask in zip(plain, by_class, strict=True)))

    def _of_classes(self, labels: Sequence[str]) -> tuple["_Column", ...]:
        if not self._targets:
            return ()
        names = labels if len(labels) == self.classes else [str(i) for i in range(self.classes)]
        return (_Column(CLASS, tuple(names), torch.cat(self._targets).numpy()),)


@dataclass(frozen=True, slots=True)
class _Column:
    """names: of its cells. codes: int64 (n,). other: the name of a cell that is omitted if it is empty.

    told: (cells,) whether a cell's results may be reported; by_class: whether also those of classes within.
    """

    part: str
    names: tuple[str, ...]
    codes: np.ndarray
    other: str = ""
    told: Mask = field(default_factory=lambda: np.zeros(0, dtype=bool))
    by_class: Mask | None = None

    @property
    def counts(self) -> np.ndarray:
        return np.bincount(self.codes, minlength=len(self.names))

    @property
    def hides(self) -> bool:
        """Whether nothing is reported about some examples."""
        return bool((self.counts[~self.told] > 0).any())

    def means(self, scores: np.ndarray) -> Iterator[tuple[str, float]]:
        """Of each cell; NaN if it may not be reported."""
        sums, counts = np.bincount(self.codes, scores, len(self.names)), self.counts
        for i, name in self._listed(counts):
            yield name, float(sums[i] / counts[i]) if self.told[i] else math.nan

    def within(self, of: Within, scores: np.ndarray, classes: np.ndarray) -> Iterator[tuple[str, float]]:
        """`of` the scores and classes of each cell; NaN if it may not be reported."""
        for i, name in self._listed(self.counts):
            cell = self.codes == i
            told = self.by_class is not None and self.by_class[i]
            yield name, of(scores[cell], classes[cell]) if told else math.nan

    def _listed(self, counts: np.ndarray) -> Iterator[tuple[int, str]]:
        yield from ((i, name) for i, name in enumerate(self.names) if counts[i] or name != self.other)
