"""What a ledger knows a data set by, and which sets may not stand beside each other in one ledger.

Two accounts with records in common would each pay for their own half: neither would stop at the budget.
"""

from dataclasses import dataclass

from fl_dp.accounting.overlap import share_many

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
