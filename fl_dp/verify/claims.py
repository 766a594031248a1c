"""The claims of rounds.jsonl and summary.json as typed values; ConfigError for any other type."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from fl_dp.clean_text import clean
from fl_dp.decoding import By, Count, UnfitError, fields_of, one_of
from fl_dp.errors import ConfigError
from fl_dp.records import ClientStatus, Entry, Mechanism, unknown_steps
from fl_dp.reporting.provenance import require_own, unreadable
from fl_dp.reporting.reports import ALL_RUNS, SCOPES, THIS_RUN
from fl_dp.verify.reading import lines, number, optional, parse_json, read_json, table, whole

Charges = tuple[Entry, ...]
# Largest relative difference of two numbers that must be equal: if both are computed from the same values
# on one machine; if an epsilon is computed on the server's machine and on a site's.
ROUNDING, ROUNDING_ELSEWHERE = 1e-9, 1e-6
_MOST_MECHANISMS = 1000  # of one client
_FEW_MECHANISMS = 8


def charges(found: Any) -> Charges:
    """Sorted entries, with no mechanism twice; ValueError for anything else."""
    if type(found) is not list or len(found) > _MOST_MECHANISMS:
        raise ValueError("no list of charges")
    for one in map(table, found):
        if what := unknown_steps(one):
            raise ValueError(f"charges for {what}, whose cost only fl_dp 1.0 knows")
    key = tuple(
        (
            number(one.get("sample_rate")),
            number(one.get("noise_multiplier")),
            whole(one.get("steps")),
            whole(one.get("shares", 1)),
        )
        for one in map(table, found)
    )
    return _known_entries(key) if len(key) <= _FEW_MECHANISMS else _entries(key)


Number = Annotated[float | None, By(optional)]  # None: not finite, or not known
_Charges = Annotated[Charges | None, By(charges)]
_Before = Annotated[Charges, By(charges)]  # here: in a claim its field `charges` hides the function


@dataclass(frozen=True, slots=True)
class CostClaim:
    """What this run is claimed to have cost a client, and in `claimed_epsilon` what everything else has."""

    epsilon: Number
    charges: _Charges
    planned_epsilon: Number = None
    claimed_epsilon: Number = None
    epsilon_alone: Number = None
    says_alone: bool = False


def _read(kind: type, found: Any, *apart: str) -> dict[str, Any]:
    """The fields; other keys are allowed beside them."""
    read = fields_of(kind, found, apart=(*apart, "says_alone"), others=True)
    return read | {"says_alone": "epsilon_alone" in found}


def _cost(found: Any) -> CostClaim:
    return CostClaim(**_read(CostClaim, found))


@dataclass(frozen=True, slots=True)
class ClientClaim:
    """One client in a round, or at the end. epsilon: None if none holds.

    charges: None in a run of an older fl_dp, which did not write them; likewise delta. own_steps: the claimed
    steps of its update in this round; 0 without one, and at the end. shares: of these.
    epsilon_alone: if the assumption behind secure sums fails, None if none holds; says_alone: whether the
    file has it at all.
    before, public_size, planned_epsilon, rounds, retired: only in summary.json. this_run: None if all of it
    is this run's, and in files of an older fl_dp.
    """

    name: str
    where: str
    epsilon: Number
    accountant: str
    status: ClientStatus
    steps: Count
    delta: Number = None
    budget: Number = None
    charges: _Charges = None
    sample_rate: Number = None
    noise_multiplier: Number = None
    own_steps: int = 0
    before: _Before = ()
    public_size: Count = 0
    planned_epsilon: Number = None
    rounds: Count = 0
    retired: Count = 0
    shares: Count = 1
    epsilon_alone: Number = None
    says_alone: bool = False
    this_run: Annotated[CostClaim | None, By(_cost)] = None

    @property
    def cost(self) -> CostClaim:
        """Of this run, as far as the file separates it from what was there before."""
        if self.this_run is not None:
            return self.this_run
        return CostClaim(
            self.epsilon, self.charges, self.planned_epsilon, None, self.epsilon_alone, self.says_alone
        )


@dataclass(frozen=True, slots=True)
class Together:
    """The federation's budgets, as claimed."""

    largest: Number
    median: Number
    least: Number
    rounds_ahead: Count
    epsilon_alone: Number = None
    says_alone: bool = False
    scope: Annotated[str, By(one_of(SCOPES))] = ALL_RUNS


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
        """The clients that the federation's figures cover."""
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
    require_own(found := read_json(path), path.name)
    return _claim(found, path.name, "rounds")


def _claim(found: Any, where: str, counter: str) -> Claim:
    try:
        found = table(found)
        together = found.get("federation")
        read: dict[str, Any] = {
            "round": whole(found[counter]),
            "private": _truth(found["private"]),
            "epsilon": optional(found["epsilon"]),
            "delta": optional(found["delta"]),
            "together": None if together is None else Together(**_read(Together, together)),
            "planned_epsilon": optional(found.get("planned_epsilon")),
        }
        rows = table(found["clients"])
    except (ValueError, KeyError) as error:
        raise ConfigError(f"{where} {unreadable(found, _words(error))}") from None
    clients = {name: _client(name, one, f"{where}, client {clean(name)}") for name, one in rows.items()}
    return Claim(where=where, clients=clients, raw=found, **read)


def _client(name: str, found: Any, where: str) -> ClientClaim:
    try:
        read = _read(ClientClaim, found, "name", "where", "own_steps")
        steps = whole(table(found.get("reported", {})).get("steps", 0))
        return ClientClaim(name, where, own_steps=steps, **read)
    except ValueError as error:
        raise ConfigError(f"{where} is damaged: {_words(error)}.") from None


def _entries(key: tuple[tuple[Any, ...], ...]) -> Charges:
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
    """The part of `at_least` that is not in `spent`; empty if all of it is."""
    there = steps_by_mechanism(spent)
    short = ((one, one.steps - there.get(one.mechanism, 0)) for one in at_least)
    return tuple(one.taking(steps) for one, steps in short if steps > 0)


def alone(spent: Iterable[Entry]) -> Charges:
    """The charges as they count if the assumption behind secure sums fails.

    Each client's part is then seen, and its own share is its only noise: the smallest of any with that rate
    and noise.
    """
    spent = tuple(spent)

    def most(one: Entry) -> int:
        key = one.sample_rate, one.noise_multiplier
        return max(other.shares for other in spent if (other.sample_rate, other.noise_multiplier) == key)

    return merged(
        Entry(one.sample_rate, one.noise_multiplier / math.sqrt(most(one)), one.steps)
        if one.shares > 1
        else one
        for one in spent
    )


def _truth(found: object) -> bool:
    if type(found) is not bool:
        raise ValueError("no truth value")
    return found


def _words(error: Exception) -> str:
    """ConfigError is also a ValueError: an entry that is out of range has words of its own."""
    if isinstance(error, UnfitError):
        return error.problem
    return f"{error} is missing" if isinstance(error, KeyError) else str(error).rstrip(".")
