"""The checks, each a file of `checks/`: what they are given, what they find, and how they are run."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from fl_dp.choices import CHECKS
from fl_dp.errors import ConfigError, FlDpError
from fl_dp.kits.roster import Roster
from fl_dp.reporting.reports import RoundReport, Summary
from fl_dp.reporting.run_files import read_summary
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.verify.claims import Claim, round_claims
from fl_dp.verify.reading import is_there, read_bytes

_MOST_OF_A_KIND = 5  # findings of one kind that are listed singly


class Outcome(StrEnum):
    """NOTE: not a contradiction, but something that an officer should know."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NOT_GIVEN = "not given"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """what: in words. where: file, line and client; empty for a whole check. means: what follows from it."""

    outcome: Outcome
    what: str
    where: str = ""
    means: str = ""


@dataclass
class Found:
    """The findings of the check of this name. It keeps a few with the same meaning and counts the others.

    signed: for each client that has stated what it spent, whether its own site has signed the statement.
    """

    name: str = ""
    signed: dict[str, bool] = field(default_factory=dict)
    kept: list[Finding] = field(default_factory=list)
    _counts: dict[tuple[Outcome, str], int] = field(default_factory=dict)

    def agrees(self, what: str) -> None:
        self._add(Finding(Outcome.AGREES, what), what)

    def differs(self, what: str, where: str, means: str) -> None:
        self._add(Finding(Outcome.DIFFERS, what, where, means), means)

    def note(self, what: str, where: str = "", means: str = "") -> None:
        self._add(Finding(Outcome.NOTE, what, where, means), means or what)

    def not_given(self, what: str, means: str = "") -> None:
        self._add(Finding(Outcome.NOT_GIVEN, what, "", means), what)

    @property
    def any_differ(self) -> bool:
        return any(outcome is Outcome.DIFFERS for outcome, _ in self._counts)

    @property
    def findings(self) -> tuple[Finding, ...]:
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


@dataclass(frozen=True)
class Evidence:
    """What was given. roster: one that the officer trusts, or None. ledgers: files.

    progress: is told how far a long check is. digest: from a printed page; empty if none was given.
    """

    folder: RunFolder
    roster: Roster | None = None
    ledgers: tuple[Path, ...] = ()
    progress: Callable[[str], None] = field(default=lambda words: None)
    digest: str = ""

    @cached_property
    def summary(self) -> Summary | None:
        """The summary; None if there is no readable one: the check `files` says why."""
        with suppress(ConfigError):
            return self.read_summary()
        return None

    def read_summary(self) -> Summary | None:
        """The summary; None without one. ConfigError if it cannot be read."""
        path = self.folder.summary
        return read_summary(read_bytes(path), path.name) if is_there(path) else None

    def rounds(self) -> Iterator[Claim[RoundReport]]:
        """The rounds up to the first unreadable line, which the check `files` reports."""
        if is_there(self.folder.rounds):
            with suppress(ConfigError):
                yield from round_claims(self.folder.rounds)

    def claims(self) -> Iterator[Claim[RoundReport | Summary]]:
        """The rounds, then the summary."""
        yield from self.rounds()
        if self.summary is not None:
            yield Claim(self.folder.summary.name, self.summary)


@dataclass(frozen=True, slots=True)
class Check:
    """The descriptor in every file of `checks/`.

    place: sorts the checks. run: adds its findings; an FlDpError that it raises becomes a finding.
    """

    place: int
    run: Callable[[Evidence, Found], None]


def checked(evidence: Evidence) -> Iterator[Found]:
    """The findings of each of our checks, in order. Whatever the files hold, each check ends with findings.

    Checks of other packages do not run: the verdict is ours.
    """
    checks = {name: CHECKS.load(name, Check) for name in CHECKS.built_in()}
    for name, check in sorted(checks.items(), key=lambda one: one[1].place):
        found = Found(name)
        evidence.progress(f"checking {name}")
        try:
            check.run(evidence, found)
        except FlDpError as error:
            found.differs(str(error).rstrip("."), "", "it could not be checked any further")
        yield found
