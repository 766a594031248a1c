"""What a ledger knows a data set by, and which sets may not stand beside each other in one ledger.

Two accounts with records in common would each pay for their own half: neither would stop at the budget.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from fl_dp.accounting.ledger.overlap import share_many

_RETIRE = "retire {held} (fl-dp ledger retire), which takes nothing back of what is spent"


@dataclass(frozen=True, slots=True)
class Identity:
    """A data set, or one part of it.

    dataset: its name in the ledger; fingerprint: of its contents.
    source: the operator's name of the whole set; cut: what decides which of its records are in which part,
    empty if all are in one. Parts of one cut share no record.
    sketch: a sample of its records (see `overlap`); empty if none was taken.
    """

    dataset: str
    fingerprint: str
    source: str
    cut: str = ""
    sketch: str = ""

    def may_share_records(self, other: "Identity") -> bool:
        """Whether anything that is known of the two says that a record may be in both."""
        if self.fingerprint == other.fingerprint or self.dataset == other.dataset:
            return True
        if self.source == other.source:
            return self.cut != other.cut
        return share_many(self.sketch, other.sketch)


def conflict(held: Identity, new: Identity) -> str:
    """Why `new` may not be entered beside `held`, and what to do; empty if it may."""
    if not held.may_share_records(new):
        return ""
    retire = _RETIRE.format(held=held.dataset)
    if held.dataset == new.dataset:
        return f"data set {held.dataset} is entered with other contents. Restore the data, or {retire}."
    if held.fingerprint == new.fingerprint:
        return (
            f"these data are entered as {held.dataset}, not {new.dataset}; use that name, so that what they "
            "have spent still counts."
        )
    if held.source == new.source:
        return (
            f"{held.source} is entered as {held.dataset}; {new.dataset} would share records with it, and "
            f"what they have spent would not count. Part the data as then, or {retire}."
        )
    return (
        f"{new.dataset} seems to share many records with {held.dataset}, and what they have spent would not "
        f"count. Train on {held.dataset} as it is, or {retire}."
    )


class IdentityIndex:
    """The data sets in use, found quickly by what a new one may conflict with.

    A simulation enters thousands of parts of one set; they need not be compared with each other one by one.
    """

    def __init__(self) -> None:
        self._by_dataset: dict[str, Identity] = {}
        self._by_fingerprint: dict[str, Identity] = {}
        self._by_source: dict[str, dict[str, Identity]] = {}  # and, within, by data set

    def add(self, identity: Identity) -> None:
        self._by_dataset[identity.dataset] = identity
        self._by_fingerprint[identity.fingerprint] = identity
        self._by_source.setdefault(identity.source, {})[identity.dataset] = identity

    def remove(self, identity: Identity) -> None:
        del self._by_dataset[identity.dataset]
        del self._by_fingerprint[identity.fingerprint]
        del self._by_source[identity.source][identity.dataset]

    def conflict(self, new: Identity) -> str:
        """`conflict` with the first that there is one with; empty if there is none."""
        return next((reason for held in self._comparable(new) if (reason := conflict(held, new))), "")

    def _comparable(self, new: Identity) -> Iterator[Identity]:
        for found in (self._by_dataset.get(new.dataset), self._by_fingerprint.get(new.fingerprint)):
            if found is not None:
                yield found
        for source, parts in self._by_source.items():
            # all parts of one set that are in use are of one cut: any of them tells
            yield from islice(parts.values(), 1) if source == new.source else parts.values()
