"""A budget for one mechanism pays for no other, not even when two rounds come at once."""

import pytest

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.one_mechanism import OneMechanismBudget, conflict
from fl_dp.errors import BudgetExhaustedError, DeclinedError
from fl_dp.records import Entry

BUDGET = OneMechanismBudget(3.0, 1e-5, "rdp")
MANY = Entry(0.1, 1.0, 10_000)


def test_the_first_mechanism_is_free_and_then_pays_as_any_budget_does():
    plain = Budget(3.0, 1e-5, "rdp")
    for spent in ((), (Entry(0.1, 1.0, 20),), (Entry(0.1, 1.0, 20), Entry(0.1, 1.0, 20))):
        assert BUDGET.steps_that_fit(MANY, spent) == plain.steps_that_fit(MANY, spent)


@pytest.mark.parametrize("mechanism", [(0.1, 1.1), (0.1, 0.9), (0.05, 1.0), (0.1 + 1e-15, 1.0)])
def test_another_mechanism_is_declined_with_the_first_one_named(mechanism):
    words = "data were trained with sample rate 0.1 with noise multiplier 1, and its epsilon holds for one"
    with pytest.raises(DeclinedError, match=words) as declined:
        BUDGET.steps_that_fit(Entry(*mechanism, 1), (Entry(0.1, 1.0, 5),))
    assert not isinstance(declined.value, BudgetExhaustedError)


def test_a_history_of_two_mechanisms_goes_with_neither():
    spent = (Entry(0.1, 1.0, 5), Entry(0.2, 1.0, 5))
    assert "noise multiplier 1 and sample rate 0.2" in conflict(MANY, spent)


def test_of_two_rounds_at_once_only_one_can_be_the_first(tmp_path):
    """Each process has looked at the ledger before either reserves: the ledger's transaction decides."""
    path = tmp_path / "ledger.sqlite"
    with Ledger.open(path) as one, Ledger.open(path) as other:
        one.register("data", "print", 100)
        assert one.spent("data") == other.spent("data") == ()
        one.reserve("data", "run", 1, Entry(0.1, 1.0, 3), BUDGET)
        with pytest.raises(DeclinedError, match="one mechanism"):
            other.reserve("data", "run-2", 1, Entry(0.1, 5.0, 3), BUDGET)
        assert other.spent("data") == (Entry(0.1, 1.0, 3),)
