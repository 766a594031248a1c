"""Groups of data sets that may hold some of the same records, directly or through others.

A ledger may have thousands of parts of one set, or thousands of files. So only those are compared that have
something in common by which they may be related.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations, product

import numpy as np

from fl_dp.accounting.ledger.identity import Identity
from fl_dp.accounting.ledger.overlap import numbers_of


def kin_groups(identities: Sequence[Identity]) -> list[list[int]]:
    """Positions of the identities, by group; each group in order, and the groups ordered by their last one.

    Two are in one group if a chain of `Identity.may_share_records` leads from one to the other.
    """
    groups = _Groups(len(identities))
    for same in _certain(identities):
        for other in same[1:]:
            groups.join(same[0], other)
    for one, other in _possible(identities):
        if not groups.are_one(one, other) and identities[one].may_share_records(identities[other]):
            groups.join(one, other)
    found: dict[int, list[int]] = defaultdict(list)
    for position in range(len(identities)):
        found[groups.head(position)].append(position)
    return sorted(found.values(), key=lambda group: group[-1])


def _certain(identities: Sequence[Identity]) -> Iterator[list[int]]:
    """Those with the same name, with equal contents, or of one source that was cut in several ways."""
    yield from _by(one.dataset for one in identities)
    yield from _by(one.fingerprint for one in identities)
    for same in _by(one.source for one in identities):
        if len({identities[position].cut for position in same}) > 1:
            yield same  # even if two of them have the same cut, both are related to the third


def _possible(identities: Sequence[Identity]) -> Iterator[tuple[int, int]]:
    """Pairs of different sources with a common number in one of their sketches; all others share nothing."""
    for sample in ("sketch", "persons", "traces"):
        alike = defaultdict(list)  # thousands of parts of one set have the same traces, those of the set
        for position, one in enumerate(identities):
            alike[getattr(one, sample)].append(position)
        alike.pop("", None)
        members = list(alike.values())
        for holders in chain(([one] for one in range(len(members))), _holders_of_one_number(list(alike))):
            by_source = defaultdict(list)
            for position in chain.from_iterable(members[holder] for holder in holders):
                by_source[identities[position].source].append(position)
            for some, others in combinations(by_source.values(), 2):
                yield from product(some, others)


def _holders_of_one_number(sketches: Sequence[str]) -> Iterator[list[int]]:
    """For each number that is in several sketches, their positions.

    Uses arrays: thousands of sketches hold millions of numbers.
    """
    each = [numbers_of(sketch) for sketch in sketches]
    if not each:
        return
    holders = np.repeat(np.arange(len(each)), [len(one) for one in each])
    numbers = np.concatenate(each)
    order = np.argsort(numbers, kind="stable")
    numbers, holders = numbers[order], holders[order]
    starts = np.unique(numbers, return_index=True)[1]
    ends = np.append(starts[1:], len(numbers))
    for several in np.flatnonzero(ends - starts > 1):
        yield holders[starts[several] : ends[several]].tolist()


def _by(keys: Iterable[str]) -> Iterator[list[int]]:
    """Positions of equal keys."""
    found: dict[str, list[int]] = defaultdict(list)
    for position, key in enumerate(keys):
        found[key].append(position)
    yield from found.values()


class _Groups:
    """Disjoint sets of positions (union-find)."""

    def __init__(self, number: int) -> None:
        self._above = list(range(number))

    def head(self, position: int) -> int:
        """The position that represents its group."""
        while self._above[position] != position:
            self._above[position] = self._above[self._above[position]]
            position = self._above[position]
        return position

    def are_one(self, one: int, other: int) -> bool:
        return self.head(one) == self.head(other)

    def join(self, one: int, other: int) -> None:
        self._above[self.head(one)] = self.head(other)
