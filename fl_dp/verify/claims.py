"""What rounds.jsonl and summary.json claim, as values of their types; ConfigError where they are not."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from fl_dp.clean_text import clean
from fl_dp.errors import ConfigError
from fl_dp.records import CLIENT_STATUSES, REFUTED, Entry, Mechanism
from fl_dp.reporting.reports import ALL_RUNS, SCOPES, THIS_RUN
from fl_dp.verify.reading import lines, number, optional, parse_json, read_json, table, text, whole

Charges = tuple[Entry, ...]
# By how much two numbers that must be equal may differ, relatively: both are computed from the same values on
# one machine; or an epsilon is computed on the server's machine and on a site's.
ROUNDING, ROUNDING_ELSEWHERE = 1e-9, 1e-6
_MOST_MECHANISMS = 1000  # of one client
_FEW_MECHANISMS = 8


@dataclass(frozen=True, slots=True)
class CostClaim:
    """What this run is said to have cost a client, and in `claimed_epsilon` what everything else has."""

    epsilon: float | None
    charges: Charges | None
    epsilon_alone: float | None
    says_alone: bool
    planned_epsilon: float | None
    claimed_epsilon: float | None = None


@dataclass(frozen=True, slots=True)
class ClientClaim:
    """One client in a round, or at the end. epsilon: None where none holds.

    charges: None in a run of an older fl_dp, which did not write them; so is delta. own_steps: that its
    update of this round is said to have taken; 0 without one, and at the end. shares, copies: of these.
    epsilon_alone: if the assumption behind secure sums fails, None where none holds; says_alone: whether it
    says so at all.
    arithmetic: as it stands there, or `REFUTED`, whose older fl_dp wrote none.
    before, public_size, planned_epsilon, rounds, retired: of summary.json alone. this_run: None where all of
    it is this run's, and in files of an older fl_dp.
    """

    name: str
    where: str
    epsilon: float | None
    delta: float | None
    budget: float | None
    accountant: str
    status: str
    steps: int
    charges: Charges | None
    sample_rate: float | None
    noise_multiplier: float | None
    own_steps: int
    before: Charges
    public_size: int
    planned_epsilon: float | None
    rounds: int
    retired: int
    shares: int
    copies: int
    epsilon_alone: float | None
    says_alone: bool
    arithmetic: object
    this_run: CostClaim | None

    @property
    def cost(self) -> CostClaim:
        """Of this run, as far as the file tells it from what was there before."""
        if self.this_run is not None:
            return self.this_run
        return CostClaim(
            self.epsilon, self.charges, self.epsilon_alone, self.says_alone, self.planned_epsilon
        )


@dataclass(frozen=True, slots=True)
class Together:
    """The federation's budgets, as claimed."""

    largest: float | None
    median: float | None
    least: float | None
    clients_per_person: int
    rounds_ahead: int
    epsilon_alone: float | None
    says_alone: bool
    scope: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A line of rounds.jsonl, or summary.json. round: of the line, or how many rounds were run.

    raw: as it was read.
    """

    where: str
    round: int
    private: bool
    epsilon: float | None
    delta: float | None
    together: Together | None
    clients: Mapping[str, ClientClaim]
    planned_epsilon: float | None
    raw: Mapping[str, Any]

    @property
    def counted(self) -> list[ClientClaim]:
        """The clients that the federation's figures are of."""
        found = list(self.clients.values())
        if self.together is None or self.together.scope != THIS_RUN:
            return found
        return [one for one in found if one.cost.charges]


def round_claims(path: Path) -> Iterator[Claim]:
    """The lines of rounds.jsonl, one in memory at a time."""
    for count, line in lines(path):
        where = f"{path.name}, line {count}"
        yield _claim(parse_json(line, where), where, "round")


def summary_claim(path: Path) -> Claim:
    """What summary.json says."""
    return _claim(read_json(path), path.name, "rounds")


def _claim(found: Any, where: str, counter: str) -> Claim:
    try:
        found = table(found)
        together = found.get("federation")
        return Claim(
            where=where,
            round=whole(found[counter]),
            private=_truth(found["private"]),
            epsilon=optional(found["epsilon"]),
            delta=optional(found["delta"]),
            together=None if together is None else _together(table(together)),
            clients={
                name: _client(name, one, f"{where}, client {clean(name)}")
                for name, one in table(found["clients"]).items()
            },
            planned_epsilon=optional(found.get("planned_epsilon")),
            raw=found,
        )
    except ConfigError:
        raise
    except (ValueError, KeyError) as error:
        raise ConfigError(f"{where} is damaged: {_words(error)}.") from None


def _client(name: str, found: Any, where: str) -> ClientClaim:
    try:
        found = table(found)
        status = text(found["status"])
        if status not in CLIENT_STATUSES:
            raise ValueError("an unknown status")
        return ClientClaim(
            name=name,
            where=where,
            epsilon=optional(found["epsilon"]),
            delta=optional(found.get("delta")),
            budget=optional(found.get("budget")),
            accountant=text(found["accountant"]),
            status=status,
            steps=whole(found["steps"]),
            charges=charges(found["charges"]) if "charges" in found else None,
            sample_rate=optional(found.get("sample_rate")),
            noise_multiplier=optional(found.get("noise_multiplier")),
            own_steps=whole(table(found.get("reported", {})).get("steps", 0)),
            before=charges(found.get("before", [])),
            public_size=whole(found.get("public_size", 0)),
            planned_epsilon=optional(found.get("planned_epsilon")),
            rounds=whole(found.get("rounds", 0)),
            retired=whole(found.get("retired", 0)),
            shares=whole(found.get("shares", 1)),
            copies=whole(found.get("copies", 1)),
            epsilon_alone=optional(found.get("epsilon_alone")),
            says_alone="epsilon_alone" in found,
            arithmetic=found.get("arithmetic", REFUTED),
            this_run=_cost(table(found["this_run"])) if "this_run" in found else None,
        )
    except (ValueError, KeyError) as error:
        raise ConfigError(f"{where} is damaged: {_words(error)}.") from None


def _cost(found: Mapping[str, Any]) -> CostClaim:
    return CostClaim(
        optional(found["epsilon"]),
        charges(found["charges"]),
        optional(found.get("epsilon_alone")),
        "epsilon_alone" in found,
        optional(found.get("planned_epsilon")),
        optional(found.get("claimed_epsilon")),
    )


def _together(found: Mapping[str, Any]) -> Together:
    scope = text(found.get("scope", ALL_RUNS))
    if scope not in SCOPES:
        raise ValueError("an unknown scope")
    return Together(
        optional(found["largest"]),
        optional(found["median"]),
        optional(found["least"]),
        whole(found["clients_per_person"]),
        whole(found["rounds_ahead"]),
        optional(found.get("epsilon_alone")),
        "epsilon_alone" in found,
        scope,
    )


def charges(found: Any) -> Charges:
    """Sorted entries, no mechanism twice; ValueError for anything else."""
    if type(found) is not list or len(found) > _MOST_MECHANISMS:
        raise ValueError("no list of charges")
    key = tuple(
        (
            number(one["sample_rate"]),
            number(one["noise_multiplier"]),
            whole(one["steps"]),
            whole(one.get("shares", 1)),
            whole(one.get("copies", 1)),
        )
        for one in map(table, found)
    )
    return _known_entries(key) if len(key) <= _FEW_MECHANISMS else _entries(key)


def _entries(key: tuple[tuple[float, float, int, int, int], ...]) -> Charges:
    found = tuple(sorted(Entry(*one) for one in key))
    if len(steps_by_mechanism(found)) < len(found):
        raise ValueError("a mechanism that is charged twice")
    return found


_known_entries = lru_cache(maxsize=65536)(_entries)  # most clients of a run are alike


def steps_by_mechanism(spent: Charges) -> dict[Mechanism, int]:
    return {one.mechanism: one.steps for one in spent}


def merged(spent: Iterable[Entry]) -> Charges:
    """One entry for each mechanism, sorted."""
    found: dict[Mechanism, Entry] = {}
    for one in spent:
        known = found.get(one.mechanism)
        found[one.mechanism] = one.taking(known.steps + one.steps) if known else one
    return tuple(sorted(found.values()))


def missing(spent: Charges, at_least: Charges) -> Charges:
    """What of `at_least` is not in `spent`; empty where all of it is."""
    there = steps_by_mechanism(spent)
    short = ((one, one.steps - there.get(one.mechanism, 0)) for one in at_least)
    return tuple(one.taking(steps) for one, steps in short if steps > 0)


def alone(spent: Iterable[Entry]) -> Charges:
    """The charges as they count if the assumption behind secure sums fails: a client's own share is all of
    its noise, the least of all with that rate and noise, and each client's part is seen.
    """
    spent = tuple(spent)

    def most(one: Entry) -> int:
        key = one.sample_rate, one.noise_multiplier
        return max(other.shares for other in spent if (other.sample_rate, other.noise_multiplier) == key)

    return merged(
        Entry(one.sample_rate, one.noise_multiplier / math.sqrt(most(one)), one.steps * one.copies)
        if one.shares > 1 or one.copies > 1
        else one
        for one in spent
    )


def _truth(found: object) -> bool:
    if type(found) is not bool:
        raise ValueError("no truth value")
    return found


def _words(error: Exception) -> str:
    """ConfigError is a ValueError, too: an entry that is out of range has words of its own."""
    return f"{error} is missing" if isinstance(error, KeyError) else str(error).rstrip(".")
