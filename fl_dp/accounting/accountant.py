"""An accountant: how it computes epsilon, and whether its result may hold a budget."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from fl_dp.choices import ACCOUNTANTS
from fl_dp.config.flat import OWN_ACCOUNTANT
from fl_dp.errors import ConfigError
from fl_dp.records import Entry

DEFAULT_ACCOUNTANT = "pld"


@dataclass(frozen=True, slots=True)
class Accountant:
    """The descriptor in every file of `accountants/`; the file's name is the accountant's.

    compute: epsilon of merged entries at a delta in (0, 1). It never gets an empty history, nor
    unprotected or hopelessly weak entries. AccountingError if it has no answer.
    upper_bound: whether it is proven that no true epsilon is larger, rounding errors included. Otherwise the
    accountant serves for planning and comparing, and never holds a budget.
    """

    compute: Callable[[tuple[Entry, ...], float], float]
    upper_bound: bool


def find_accountant(name: str) -> Accountant:
    """The accountant of that name; imports its file and no other. ConfigError if there is none."""
    if ":" in name:
        raise ConfigError(f"accountant = {name!r}: an accountant takes no argument; leave it out.")
    return ACCOUNTANTS.load(name, Accountant)


@lru_cache(maxsize=32)
def check_holds_budgets(name: str) -> None:
    """ConfigError unless the accountant may hold a budget: it must be fl_dp's own, and a proven upper bound.

    Nobody else can be asked to believe the epsilon of another package's accountant. Its code is not loaded.
    """
    ACCOUNTANTS.check_built_in(name, OWN_ACCOUNTANT)
    if not find_accountant(name).upper_bound:
        holders = [own for own in ACCOUNTANTS.built_in() if find_accountant(own).upper_bound]
        raise ConfigError(
            f"accountant = {name!r}: its epsilon is not a proven upper bound, so it may not enforce a "
            f"budget; use {' or '.join(holders)}."
        )
