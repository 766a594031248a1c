"""The claims of rounds.jsonl and summary.json, and how charges and epsilons are compared."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from fl_dp.accounting.events import beyond, merge
from fl_dp.clean_text import clean
from fl_dp.records import Entry
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.reports import RoundReport, Summary
from fl_dp.reporting.run_files import read_round
from fl_dp.verify.reading import lines

Charges = tuple[Entry, ...]
Report = TypeVar("Report", bound=RoundReport | Summary, covariant=True)
# Largest relative difference of numbers that are equal: computed from the same values on one machine; and of
# an epsilon computed on the server's machine and on a site's.
ROUNDING, ROUNDING_ELSEWHERE = 1e-9, 1e-6
NO_SUCH_DELTA = "no delta can be that: it lies between 0 and 1"


@dataclass(frozen=True, slots=True)
class Claim(Generic[Report]):
    """A line of rounds.jsonl, or summary.json, and its place."""

    where: str
    report: Report

    def of(self, client: str) -> str:
        """The place where it speaks of the client."""
        return f"{self.where}, client {clean(client)}"


def round_claims(path: Path) -> Iterator[Claim[RoundReport]]:
    """The lines of rounds.jsonl, one in memory at a time."""
    for count, line in lines(path):
        where = f"{path.name}, line {count}"
        yield Claim(where, read_round(line, where))


def missing(spent: Charges, at_least: Charges) -> Charges:
    """The part of `at_least` that is not in `spent`; empty if all of it is."""
    return beyond(at_least, spent)


def alone(spent: Iterable[Entry]) -> Charges:
    """The charges as they count if the assumption behind secure sums fails.

    Each client's part is then seen, and only its own share of the noise protects it. All steps of one rate
    and noise count with the smallest share among them.
    """
    spent = tuple(spent)

    def most(one: Entry) -> int:
        key = one.sample_rate, one.noise_multiplier
        return max(other.shares for other in spent if (other.sample_rate, other.noise_multiplier) == key)

    return merge(
        Entry(one.sample_rate, one.noise_multiplier / math.sqrt(most(one)), one.steps)
        if one.shares > 1
        else one
        for one in spent
    )


def shown(epsilon: float | None) -> str:
    """An epsilon in a finding, rounded up. None: infinite."""
    return "infinite" if epsilon is None or math.isinf(epsilon) else rounded_up(epsilon, 4)


def named(name: str, value: float | None) -> str:
    """As `shown`; a finite delta as it is."""
    return f"{value:g}" if name == "delta" and value is not None else shown(value)
