"""What an honest client can say of itself: the ranges outside of which a message is refused unread.

Within them no accountant raises anything but an `FlDpError`, and none takes long; outside of them are
overflows (the square of 1e-300), hours of computing, and names that are paths.
"""

from collections.abc import Iterable, Sequence

from fl_dp.clean_text import one_line
from fl_dp.config.client import is_name
from fl_dp.config.ranges import MOST_RECORDS
from fl_dp.errors import ConfigError
from fl_dp.records import (
    LEAST_EPSILON,
    LEAST_NOISE,
    MOST_DELTA,
    MOST_EPSILON,
    MOST_MEMBERS,
    MOST_NOISE,
    PAID_UNDER,
    ClientProfile,
    Entry,
)

MOST_ENTRIES = 64  # mechanisms of one ledger in one message; each takes an accountant up to a second
LEAST_RATE = 1.0 / MOST_RECORDS  # of a draw of one record
MOST_STEPS = 10**9  # of one mechanism over all rounds and runs: of far fewer epsilon is infinite already
LEAST_DELTA = 1e-100
MOST_RETIRED = 10**6
_LONGEST_NAME = 60  # letters of a name that nobody knows


def check_profile(profile: ClientProfile) -> None:
    """ConfigError for public numbers that no client of fl_dp can have."""
    require(is_name(profile.client), "client", "a short printable name that is no path")
    require(1 <= profile.public_size <= MOST_RECORDS, "public_size", f"an integer from 1 to {MOST_RECORDS:g}")
    require(
        LEAST_EPSILON <= profile.epsilon <= MOST_EPSILON,
        "epsilon",
        f"a number from {LEAST_EPSILON:g} to {MOST_EPSILON:g}",
    )
    require(
        LEAST_DELTA <= profile.delta <= MOST_DELTA,
        "delta",
        f"a number from {LEAST_DELTA:g} to {MOST_DELTA:g}",
    )
    _check_accountant(profile.accountant)
    require(
        0 <= profile.min_noise_multiplier <= MOST_NOISE,
        "min_noise_multiplier",
        f"a number from 0 to {MOST_NOISE:g}",
    )
    require(
        profile.epsilon_alone == 0 or LEAST_EPSILON <= profile.epsilon_alone <= MOST_EPSILON,
        "epsilon_alone",
        f"0, or a number from {LEAST_EPSILON:g} to {MOST_EPSILON:g}",
    )
    require(profile.arithmetic in PAID_UNDER, "arithmetic", " or ".join(PAID_UNDER))
    require(0 <= profile.retired <= MOST_RETIRED, "retired", f"an integer from 0 to {MOST_RETIRED:g}")


def entries_of(*columns: Sequence[object]) -> tuple[Entry, ...]:
    """What a ledger shows, from its columns; ConfigError for what no ledger of fl_dp can show.

    columns: sample rates, noise multipliers, steps, shares, copies.
    """
    require(len(set(map(len, columns))) == 1, "spent", "lists of one length")
    require(len(columns[0]) <= MOST_ENTRIES, "spent", f"at most {MOST_ENTRIES} mechanisms")
    return tuple(_entry(*values) for values in zip(*columns, strict=True))


def _entry(rate: object, noise: object, steps: object, shares: object, copies: object) -> Entry:
    # types exactly: a bool is no int
    if type(rate) is not float or not LEAST_RATE <= rate <= 1:
        raise impossible("spent", f"sample rates from {LEAST_RATE:g} to 1")
    if type(noise) is not float or not (noise == 0 or LEAST_NOISE <= noise <= MOST_NOISE):
        raise impossible("spent", f"noise multipliers of 0, or from {LEAST_NOISE:g} to {MOST_NOISE:g}")
    if type(steps) is not int or not 1 <= steps <= MOST_STEPS:
        raise impossible("spent", f"numbers of steps from 1 to {MOST_STEPS:g}")
    if type(shares) is not int or not 1 <= shares <= (MOST_MEMBERS if noise else 1):
        raise impossible("spent", f"numbers of shares from 1 to {MOST_MEMBERS}, without noise 1")
    if type(copies) is not int or not 1 <= copies <= (MOST_MEMBERS if noise else 1):
        raise impossible("spent", f"numbers of copies from 1 to {MOST_MEMBERS}, without noise 1")
    return Entry(rate, noise, steps, shares, copies)


def require(condition: bool, field: str, expected: str) -> None:
    if not condition:
        raise impossible(field, expected)


def require_only(found: Iterable[str], known: Iterable[str], what: str = "records") -> None:
    """ConfigError unless a message has exactly these records, or a record exactly these fields."""
    found, known = set(found), set(known)
    if found != known:
        unknown, missing = some_names(found - known), some_names(known - found)
        raise ConfigError(
            f"message with {what} that do not belong together: {unknown} not known, {missing} missing; "
            f"do both sides run the same fl_dp?"
        )


def some_names(names: Iterable[str], most: int = 3) -> list[str]:
    """The first ones, cut: of a message they may be of any length, and go to a log."""
    return [one_line(name, _LONGEST_NAME) for name in sorted(names)[:most]]


def impossible(field: str, expected: str) -> ConfigError:
    return ConfigError(f"message with an impossible {field}: expected {expected}.")


def _check_accountant(name: str) -> None:
    from fl_dp.accounting.accountant import check_holds_budgets  # late: a client never reads a profile

    try:
        check_holds_budgets(name)
    except ConfigError as error:
        raise ConfigError(f"message with an impossible accountant: {error}") from None
