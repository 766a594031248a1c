"""The ranges of what an honest client can report; a message outside them is refused.

Within them no accountant raises anything but an `FlDpError`, and none takes long. Outside are overflows (the
square of 1e-300), hours of computing, and names that are paths.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from fl_dp.accounting.accountant import check_holds_budgets
from fl_dp.config.client import is_name
from fl_dp.errors import ConfigError
from fl_dp.records import (
    LEAST_EPSILON,
    LEAST_NOISE,
    MOST_EPSILON,
    MOST_MEMBERS,
    MOST_NOISE,
    MOST_RECORDS,
    ClientProfile,
    Entry,
)
from fl_dp.schema import Range, Read, encoded, some_names

MOST_ENTRIES = 64  # mechanisms of one ledger in one message; each takes an accountant up to a second
LEAST_RATE = 1.0 / MOST_RECORDS  # of a draw of one record
MOST_STEPS = 10**9  # of one mechanism over all rounds and runs: epsilon is infinite long before


def _noise(found: object) -> float:
    if type(found) is not float or not (found == 0 or LEAST_NOISE <= found <= MOST_NOISE):
        raise ValueError(f"expected 0, or a number from {LEAST_NOISE:g} to {MOST_NOISE:g}")
    return found


_MANY = Range(0, MOST_ENTRIES)


@dataclass(frozen=True, slots=True)
class Spent:
    """A ledger's entries as they are sent, in columns."""

    sample_rate: Annotated[tuple[Annotated[float, Range(LEAST_RATE, 1)], ...], _MANY]
    noise_multiplier: Annotated[tuple[Annotated[float, Read(_noise)], ...], _MANY]
    steps: Annotated[tuple[Annotated[int, Range(1, MOST_STEPS)], ...], _MANY]
    shares: Annotated[tuple[Annotated[int, Range(1, MOST_MEMBERS)], ...], _MANY]


def check_profile(profile: ClientProfile) -> None:
    """ConfigError for values that no client of fl_dp can have, beyond the ranges that the fields declare."""
    require(is_name(profile.client), "client", "a short printable name that is no path")
    try:
        check_holds_budgets(profile.accountant)
    except ConfigError as error:
        raise ConfigError(f"message with an impossible accountant: {error}") from None
    require(
        profile.epsilon_alone == 0 or LEAST_EPSILON <= profile.epsilon_alone <= MOST_EPSILON,
        "epsilon_alone",
        f"0, or a number from {LEAST_EPSILON:g} to {MOST_EPSILON:g}",
    )


def entries_of(columns: Spent) -> tuple[Entry, ...]:
    """A ledger's entries, from its columns; ConfigError for entries that no ledger of fl_dp can hold."""
    require(len(set(map(len, encoded(columns).values()))) == 1, "spent", "lists of one length")
    return tuple(map(Entry, *encoded(columns).values()))


def require(condition: bool, field: str, expected: str) -> None:
    if not condition:
        raise ConfigError(f"message with an impossible {field}: expected {expected}.")


def require_only(found: Iterable[str], known: Iterable[str]) -> None:
    """ConfigError unless a message has exactly these records."""
    found, known = set(found), set(known)
    if found != known:
        unknown, missing = some_names(found - known), some_names(known - found)
        raise ConfigError(
            f"message with records that do not belong together: {unknown} not known, {missing} missing; "
            f"do both sides run the same fl_dp?"
        )
