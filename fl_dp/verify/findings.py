"""The findings of a check: one line for what agrees, and one for each thing that does not."""

from dataclasses import dataclass, field
from enum import StrEnum

_MOST_OF_A_KIND = 5  # findings of one kind that are listed singly


class Outcome(StrEnum):
    """NOTE: something that an officer should know, but no contradiction. UNCHECKED: it was given, and cannot
    be compared here, so that nothing may be concluded from it.
    """

    AGREES = "agrees"
    DIFFERS = "differs"
    UNCHECKED = "unchecked"
    NOT_GIVEN = "not given"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """what: in words; where: the file, line and client, empty for a whole check; means: what follows."""

    outcome: Outcome
    what: str
    where: str = ""
    means: str = ""


@dataclass
class Found:
    """Collects findings. It keeps a few of each kind, and counts the others.

    signed: the clients that have stated what they spent, and whether their own site has signed it.
    """

    signed: dict[str, bool] = field(default_factory=dict)
    kept: list[Finding] = field(default_factory=list)
    _counts: dict[tuple[Outcome, str], int] = field(default_factory=dict)

    def agrees(self, what: str) -> None:
        self._add(Finding(Outcome.AGREES, what), what)

    def differs(self, what: str, where: str, means: str, kind: str = "") -> None:
        """kind: findings of the same kind are limited together; empty: `means`."""
        self._add(Finding(Outcome.DIFFERS, what, where, means), kind or means)

    def note(self, what: str, where: str = "", means: str = "", kind: str = "") -> None:
        self._add(Finding(Outcome.NOTE, what, where, means), kind or means or what)

    def unchecked(self, what: str, where: str, means: str) -> None:
        self._add(Finding(Outcome.UNCHECKED, what, where, means), means)

    def not_given(self, what: str, means: str = "") -> None:
        self._add(Finding(Outcome.NOT_GIVEN, what, "", means), what)

    @property
    def any_differ(self) -> bool:
        return any(outcome is Outcome.DIFFERS for outcome, _ in self._counts)

    def all(self) -> tuple[Finding, ...]:
        """The kept findings, and how many more there are of each kind."""
        more = [
            Finding(outcome, f"and {count - _MOST_OF_A_KIND} more of this kind", "", kind)
            for (outcome, kind), count in self._counts.items()
            if count > _MOST_OF_A_KIND
        ]
        return (*self.kept, *more)

    def _add(self, finding: Finding, kind: str) -> None:
        key = finding.outcome, kind
        self._counts[key] = self._counts.get(key, 0) + 1
        if self._counts[key] <= _MOST_OF_A_KIND:
            self.kept.append(finding)
