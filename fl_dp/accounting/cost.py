"""What a client's data have paid: one record for ledger, console, page, statement and verify.

Its annotations are also the schema by which it is read from files.
"""

import json
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

from fl_dp.accounting.alone import any_shared, compute_epsilon_alone
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.events import merge
from fl_dp.records import Entry, total_steps, unknown_steps
from fl_dp.schema import EXACT, Read

_MOST_MECHANISMS = 1000  # of one client


def _number(found: Any) -> float:
    if type(found) not in (int, float) or not 0 <= found < 1e300:
        raise ValueError("no number")
    return float(found)


def _epsilon(found: Any) -> float:
    """`strict_json` wrote null for an infinite one."""
    return math.inf if found is None else _number(found)


def charges_of(found: Any) -> tuple[Entry, ...]:
    """Sorted entries, with no mechanism twice; ValueError for anything else."""
    if not isinstance(found, list) or len(found) > _MOST_MECHANISMS:
        raise ValueError("no list of charges")
    return _entries(json.dumps(found))


@lru_cache(maxsize=65536)  # most clients of a run are alike
def _entries(text: str) -> tuple[Entry, ...]:
    rows = json.loads(text)
    for one in rows:
        if not isinstance(one, dict) or not all(type(value) in (int, float) for value in one.values()):
            raise ValueError("no list of charges")
        if what := unknown_steps(one):
            raise ValueError(f"charges for {what}, whose cost only fl_dp 1.0 knows")
        known = Entry.__dataclass_fields__.keys()
        if not {"sample_rate", "noise_multiplier", "steps"} <= one.keys() <= known:
            raise ValueError("a charge with missing or unknown fields")
        if type(one["steps"]) is not int or not 0 <= one["steps"] < EXACT:
            raise ValueError("no count of steps")
        one |= {name: _number(one[name]) for name in ("sample_rate", "noise_multiplier")}
    found = tuple(sorted(map(Entry.from_dict, rows)))
    if len({one.mechanism for one in found}) < len(found):
        raise ValueError("a mechanism that is charged twice")
    return found


Epsilon = Annotated[float, Read(_epsilon)]
Alone = Annotated[float | None, Read(_epsilon)]  # null in the file: infinite; None: not in the file
Charges = Annotated[tuple[Entry, ...], Read(charges_of)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a client's data have paid, or may have paid.

    charges: merged entries. epsilon: of these, at the delta and by the accountant of their budget.
    epsilon_alone: the same if the assumption behind secure sums fails; None if none were in such sums.

    Two are set only at a run's end. planned_epsilon: the epsilon after all planned rounds; it counts if the
    run was stopped because of its results. claimed_epsilon: in the cost of a run, the epsilon of everything
    else that the client's ledger shows.
    """

    charges: Charges
    epsilon: Epsilon
    epsilon_alone: Alone = None
    planned_epsilon: float | None = None
    claimed_epsilon: Alone = None

    @property
    def taken(self) -> int:
        """The number of steps that were charged."""
        return total_steps(self.charges)

    @property
    def if_sums_fail(self) -> float:
        """The epsilon that holds if the assumption behind secure sums fails."""
        return self.epsilon if self.epsilon_alone is None else self.epsilon_alone


def largest_alone(costs: Collection[Cost]) -> float | None:
    """The largest `if_sums_fail`; None if none of the data were in secure sums."""
    if all(one.epsilon_alone is None for one in costs):
        return None
    return max(one.if_sums_fail for one in costs)


def cost_of(charges: Iterable[Entry], delta: float, accountant: str) -> Cost:
    """The cost of these charges; AccountingError if it cannot be computed."""
    charges = merge(charges)
    alone = compute_epsilon_alone(charges, delta, accountant) if any_shared(charges) else None
    return Cost(charges=charges, epsilon=compute_epsilon(charges, delta, accountant), epsilon_alone=alone)
