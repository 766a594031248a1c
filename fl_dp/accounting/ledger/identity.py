"""How a ledger recognises a data set, and which sets may not be in one ledger together.

Two accounts with records in common would each pay only for their own half: neither would stop at the budget.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, islice, product
from typing import Annotated, Self

import numpy as np

from fl_dp.accounting.ledger.overlap import MANY_LINES, numbers_of, share_many, sketch
from fl_dp.accounting.ledger.requests import OF_FILES, DataDeclaration, Digests
from fl_dp.config.data import RECORD
from fl_dp.schema import Read


def _sketch(found: object) -> str:
    """A text that `sketch` may have written; ValueError for another."""
    if not isinstance(found, str):
        raise ValueError("expected a string")
    numbers_of(found)
    return found


Sketch = Annotated[str, Read(_sketch)]
_RETIRE = "retire {held} (fl-dp ledger retire); what is spent cannot be undone"


@dataclass(frozen=True, slots=True)
class Identity:
    """A data set, or one part of it.

    dataset: its name in the ledger; fingerprint: of its contents.
    source: the operator's name of the whole set; cut: the rule that splits the whole set into parts, empty if
    it is not split. Parts of one cut share no record.
    sketch: a sample of its records (see `overlap`); empty if none was taken. unit: what is counted, "record"
    or "person". persons: a sample of the same kind of its persons' ids, or of the names by which its records
    are grouped, which may be persons'; empty if there are none. files: a sample of the same kind of the files
    that hold its records, and of these files' lines; for a part, of the whole set, and kept only with the
    first part of a cut.
    """

    dataset: str
    fingerprint: str
    source: str
    cut: str = ""
    sketch: Sketch = ""
    unit: str = RECORD
    persons: Sketch = ""
    files: Sketch = ""

    @classmethod
    def of(cls, new: DataDeclaration, key: bytes, held: "Identity | None" = None) -> Self:
        """What a ledger with that key keeps of a data set. held: another part of it, already there."""

        def sample(digests: Digests | None) -> str:
            return sketch(digests(), key) if digests else ""

        return cls(
            new.dataset,
            new.fingerprint,
            new.source or new.dataset,
            new.cut,
            sample(new.digests),
            new.unit,
            sample(new.person_digests),
            (held and held.files) or sample(new.file_digests),
        )

    def completed(self, held: "Identity | None") -> Self:
        """This part, with the sample of files that only another part, `held`, keeps."""
        return replace(self, files=self.files or (held.files if held else ""))

    def is_of_same_files(self, other: "Identity") -> bool:
        """Whether both are all of the same files under one name, one of them known by its files alone.

        A loop knows only the files; a client knows the records that a source reads from them. Both pay from
        one account.
        """
        known_by_files = [one.fingerprint.startswith(OF_FILES) for one in (self, other)]
        return (
            known_by_files in ([True, False], [False, True])
            and (self.dataset, self.source, self.unit) == (other.dataset, other.source, other.unit)
            and self.cut == other.cut == ""
            and self.files == other.files != ""
        )

    def may_share_records(self, other: "Identity") -> bool:
        """Whether a record may be in both, by all that is known of the two."""
        if self.fingerprint == other.fingerprint or self.dataset == other.dataset:
            return True
        if self.source == other.source:
            return self.cut != other.cut
        if share_many(self.sketch, other.sketch) or share_many(self.files, other.files, MANY_LINES):
            return True
        # If either counts persons: new records of the same persons are no new persons.
        return (self.unit if other.unit == RECORD else other.unit) != RECORD and share_many(
            self.persons, other.persons
        )


def conflict(held: Identity, new: Identity) -> str:
    """Why `new` may not be entered beside `held`, and what to do; empty if it may."""
    if not held.may_share_records(new):
        return ""
    retire = _RETIRE.format(held=held.dataset)
    if held.unit != new.unit:
        return (
            f"{held.dataset} has spent with the {held.unit} as its unit of privacy; {new.dataset}, which may "
            f"hold some of the same data, would start from zero with the {new.unit}. Keep the {held.unit} "
            f"(unit), or {retire}."
        )
    if held.dataset == new.dataset:
        return (
            f"data set {held.dataset} is in this ledger with different contents. Restore the data (a random "
            f"split needs the same seed in every run), or {retire}. Different data need a different name "
            "(data-name)."
        )
    if held.fingerprint == new.fingerprint:
        return (
            f"this ledger has these data as {held.dataset}, not {new.dataset}; use that name, so that what "
            "they have spent still counts."
        )
    if held.source == new.source:
        return (
            f"this ledger has {held.source} as {held.dataset}; {new.dataset} would share records with it, "
            f"and what they have spent would not count. Split the data as before, or {retire}."
        )
    return (
        f"{new.dataset} seems to share many {new.unit}s with {held.dataset}, and what they have spent would "
        f"not count. Train on {held.dataset} as it is, or {retire}."
    )


class IdentityIndex:
    """The data sets in use, indexed so that a new one is compared with only a few of them.

    A simulation enters thousands of parts of one set; comparing each with all others would take long.
    """

    def __init__(self) -> None:
        self._by_dataset: dict[str, Identity] = {}
        self._by_fingerprint: dict[str, Identity] = {}
        self._by_source: dict[str, dict[str, Identity]] = {}  # source -> data set -> identity

    def add(self, identity: Identity) -> None:
        self._by_dataset[identity.dataset] = identity
        self._by_fingerprint[identity.fingerprint] = identity
        self._by_source.setdefault(identity.source, {})[identity.dataset] = identity

    def remove(self, identity: Identity) -> None:
        del self._by_dataset[identity.dataset]
        del self._by_fingerprint[identity.fingerprint]
        del self._by_source[identity.source][identity.dataset]

    def part(self, source: str, cut: str) -> Identity | None:
        """The last part of that cut that is in use; None if there is none."""
        parts = self._by_source.get(source, {}).values()
        return next((part for part in reversed(parts) if part.cut == cut), None)

    def conflict(self, new: Identity) -> str:
        """The first `conflict` with a data set in use; empty if there is none."""
        return next((reason for held in self._comparable(new) if (reason := conflict(held, new))), "")

    def _comparable(self, new: Identity) -> Iterator[Identity]:
        for found in (self._by_dataset.get(new.dataset), self._by_fingerprint.get(new.fingerprint)):
            if found is not None:
                yield found
        for source, parts in self._by_source.items():
            # all parts of one set that are in use have the same cut, so one of them stands for all
            yield from islice(parts.values(), 1) if source == new.source else parts.values()


def kin_groups(identities: Sequence[Identity]) -> list[list[int]]:
    """Positions of the identities, by group; each group in order, and the groups ordered by their last one.

    Two are in one group if a chain of `Identity.may_share_records` leads from one to the other. A ledger may
    have thousands of parts of one set, or thousands of files: only those are compared that have something in
    common by which they may be related.
    """
    group_of = list(range(len(identities)))
    members = {position: [position] for position in group_of}

    def join(one: int, other: int) -> None:
        into, gone = sorted((group_of[one], group_of[other]), key=lambda group: -len(members[group]))
        if into != gone:
            for position in members[gone]:
                group_of[position] = into
            members[into] += members.pop(gone)

    for same in _certain(identities):
        for other in same[1:]:
            join(same[0], other)
    for one, other in _possible(identities):
        if group_of[one] != group_of[other] and identities[one].may_share_records(identities[other]):
            join(one, other)
    return sorted(map(sorted, members.values()), key=lambda group: group[-1])


def _certain(identities: Sequence[Identity]) -> Iterator[list[int]]:
    """Those with the same name, with equal contents, or of one source that was cut in several ways."""
    yield from _by(one.dataset for one in identities)
    yield from _by(one.fingerprint for one in identities)
    for same in _by(one.source for one in identities):
        if len({identities[position].cut for position in same}) > 1:
            yield same  # even if two of them have the same cut, both are related to the third


def _possible(identities: Sequence[Identity]) -> Iterator[tuple[int, int]]:
    """Pairs of different sources with a common number in one of their sketches; all others share nothing."""
    for sample in ("sketch", "persons", "files"):
        alike = defaultdict(list)  # thousands of parts of one set have the same files, those of the set
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
