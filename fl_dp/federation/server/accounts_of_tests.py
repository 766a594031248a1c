"""What a site's account of test records holds: what it has shown, and what it may have paid since.

A site pays before it answers. One that was asked, and neither showed its account nor declined, may have paid:
until it shows its account again, what is reported of it is an upper bound.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from operator import index
from typing import Any, Self

from fl_dp.accounting.alone import any_shared
from fl_dp.accounting.budget import Budget, auto_delta
from fl_dp.accounting.events import merge
from fl_dp.errors import AccountingError
from fl_dp.records import ClientProfile, Entry


@dataclass(frozen=True, slots=True)
class AccountOfTests:
    """One site's. budget, charges: as last shown; None and none: it has shown nothing in this run.

    unheard: the number of evaluations since that it may have paid for.
    """

    budget: Budget | None = None
    charges: tuple[Entry, ...] = ()
    unheard: int = 0

    def to_row(self) -> list[Any]:
        """As JSON; the inverse of `from_row`."""
        one = self.budget
        shown = [one.epsilon, one.delta, one.accountant] if one else None
        return [shown, [entry.to_dict() for entry in self.charges], self.unheard]

    @classmethod
    def from_row(cls, row: Iterable[Any]) -> Self:
        """ValueError or TypeError if it does not fit."""
        shown, charges, unheard = row
        return cls(Budget(*shown) if shown else None, tuple(map(Entry.from_dict, charges)), index(unheard))

    def line(self, profile: ClientProfile) -> dict[str, Any]:
        """What reports say of it. charges: with what it may have paid since, as far as its budget allows;
        epsilon: of the charges, at delta; unheard: how many may be paid, not written if there are none.

        A site that has shown nothing counts with its whole budget: what it paid in earlier runs is not known.
        Its delta is then the larger of that of training and the largest that "auto" gives.
        """
        unheard = {"unheard": self.unheard} if self.unheard else {}
        if self.budget is None:
            most, delta = profile.evaluate_epsilon, max(profile.delta, auto_delta(1))
            # fl_dp 1.0 evaluated in secure sums, too
            alone = {"epsilon_alone": profile.epsilon_alone or math.inf} if profile.allow_secure_sum else {}
            rest = {"delta": delta, "budget": most, "accountant": profile.accountant, "charges": []}
            return {"epsilon": most, **alone, **rest, **unheard}
        charges = self._at_most(self.budget)
        alone = {"epsilon_alone": self.budget.epsilon_alone_of(charges)} if any_shared(charges) else {}
        return {
            "epsilon": self.budget.epsilon_of(charges),
            **alone,
            "delta": self.budget.delta,
            "budget": self.budget.epsilon,
            "accountant": self.budget.accountant,
            "charges": [entry.to_dict() for entry in charges],
            **unheard,
        }

    def _at_most(self, budget: Budget) -> tuple[Entry, ...]:
        """The charges and the evaluations since, all of one noise."""
        charges = self.charges
        for _ in range(self.unheard):
            one = Entry(1.0, self.charges[0].noise_multiplier, 1)
            try:
                if not budget.steps_that_fit(one, charges):
                    break
            except AccountingError:  # its ledger will decline this one, too
                break
            charges = merge((*charges, one))
        return charges
