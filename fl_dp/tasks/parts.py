"""Mean scores over each class and subgroup of a test set, as far as they may be reported."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from fl_dp.data.subgroups import OTHER, Subgroups
from fl_dp.tasks.small_cells import Mask, told_cells

Each = Callable[[Tensor, Tensor], Tensor]  # outputs and targets (n, ...) to scores (n,)
CLASS, SUBGROUP = "class", "subgroup"


@dataclass
class Parts:
    """Scores of the examples seen so far, in the order of the data.

    scores: for each metric's name, whether it is reported by CLASS or SUBGROUP, and what is averaged.
    classes: their number; 0 if nothing reported depends on them. subgroups: of all examples, or none.
    owners: the person of each example, if the unit is a person.
    """

    scores: Mapping[str, tuple[str, Each]]
    classes: int = 0
    subgroups: tuple[Subgroups, ...] = ()
    owners: tuple[str, ...] = ()
    _seen: dict[str, list[Tensor]] = field(default_factory=dict)
    _targets: list[Tensor] = field(default_factory=list)

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        """Add a batch."""
        for name, (_, each) in self.scores.items():
            self._seen.setdefault(name, []).append(each(outputs, targets).double().cpu())
        if self.scores and self.classes:
            self._targets.append(targets.cpu())

    def told(self, labels: Sequence[str]) -> "Told":
        """What may be reported of all examples seen. labels: of the classes; numbers if they do not fit."""
        if not self.scores:
            return Told({}, (), False)
        columns = [*self._of_classes(labels), *self._of_subgroups()]
        if not columns:
            return Told({}, (), False)
        codes = np.stack([column.codes for column in columns], axis=1)
        masks = told_cells(codes, tuple(len(column.names) for column in columns), self.owners)
        columns = [replace(column, told=mask) for column, mask in zip(columns, masks, strict=True)]
        scores = {
            name: (part, torch.cat(self._seen[name]).numpy()) for name, (part, _) in self.scores.items()
        }
        hides = any(column.hides and column.part == CLASS for column in columns)
        return Told(scores, tuple(columns), hides)

    def _of_classes(self, labels: Sequence[str]) -> Iterator["_Column"]:
        if self.classes:
            names = labels if len(labels) == self.classes else [str(i) for i in range(self.classes)]
            yield _Column(CLASS, tuple(names), torch.cat(self._targets).numpy())

    def _of_subgroups(self) -> Iterator["_Column"]:
        for one in self.subgroups:
            yield _Column(SUBGROUP, one.full_names, one.codes.numpy(), f"{one.name} = {OTHER}")


@dataclass(frozen=True, slots=True)
class _Column:
    """names: of its cells. codes: int64 (n,). other: name of a cell that is omitted if it is empty."""

    part: str
    names: tuple[str, ...]
    codes: np.ndarray
    other: str = ""
    told: Mask = field(default_factory=lambda: np.zeros(0, dtype=bool))

    @property
    def counts(self) -> np.ndarray:
        return np.bincount(self.codes, minlength=len(self.names))

    @property
    def hides(self) -> bool:
        """Whether there are examples about which nothing is reported."""
        return bool((self.counts[~self.told] > 0).any())

    def means(self, scores: np.ndarray) -> Iterator[tuple[str, float | None]]:
        sums, counts = np.bincount(self.codes, scores, len(self.names)), self.counts
        for i, name in enumerate(self.names):
            if counts[i] or name != self.other:
                mean = float(sums[i] / counts[i]) if self.told[i] else math.nan
                yield name, mean if math.isfinite(mean) else None


@dataclass(frozen=True, slots=True)
class Told:
    """hides_a_class: there are examples of classes about which nothing is reported."""

    _scores: Mapping[str, tuple[str, np.ndarray]]
    _columns: tuple[_Column, ...]
    hides_a_class: bool

    def means(self, metric: str) -> dict[str, float | None]:
        """For each class or subgroup, as METRIC[NAME]; None if it may not be reported, or is not finite.

        Empty without any.
        """
        if metric not in self._scores:
            return {}
        part, scores = self._scores[metric]
        found = (item for column in self._columns if column.part == part for item in column.means(scores))
        return {f"{metric}[{name}]": value for name, value in found}
