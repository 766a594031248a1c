"""Epsilon alone, and its wall: what a client has spent if the assumption behind secure sums fails."""

import math

import pytest

from fl_dp.accounting.alone import alone_of, any_shared, compute_epsilon_alone
from fl_dp.accounting.budget import Budget
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.ledger.requests import ReservationRequest
from fl_dp.accounting.one_mechanism import OneMechanismBudget
from fl_dp.errors import BudgetExhaustedError
from fl_dp.records import Entry

PLAIN, SHARED = Entry(0.1, 4.0, 30), Entry(0.1, 4.0, 30, 8)


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_alone_each_step_has_its_own_share_of_noise(accountant):
    own = (PLAIN, Entry(0.1, 4.0 / math.sqrt(8), 30))
    assert compute_epsilon_alone((PLAIN, SHARED), 1e-5, accountant) == compute_epsilon(own, 1e-5, accountant)


def test_shares_that_come_to_one_noise_are_one_mechanism_alone():
    assert alone_of((Entry(0.1, 4.0, 3, 4), Entry(0.1, 2.0, 5))) == (Entry(0.1, 2.0, 8),)
    assert PLAIN.alone() is PLAIN
    assert not any_shared((PLAIN,))
    assert any_shared((PLAIN, SHARED))


def test_the_least_share_counts_for_every_step_of_a_mechanism():
    """A server that chooses how many members there are gains nothing by a small group among large ones."""
    mixed = (PLAIN, Entry(0.1, 4.0, 3, 2), Entry(0.1, 4.0, 5, 8), Entry(0.2, 4.0, 7, 2))
    assert alone_of(mixed) == alone_of((PLAIN, Entry(0.1, 4.0, 8, 8), Entry(0.2, 4.0, 7, 2)))


def test_the_second_wall_counts_what_a_larger_group_makes_of_the_steps_before():
    spent, wall = (Entry(0.1, 4.0, 40, 2),), 2.5
    steps = Budget(3.0, 1e-5, "rdp", wall).steps_that_fit(Entry(0.1, 4.0, 2000, 8), spent)
    assert compute_epsilon_alone((*spent, Entry(0.1, 4.0, steps or 1, 8)), 1e-5, "rdp") <= wall or steps == 0
    assert compute_epsilon_alone((*spent, Entry(0.1, 4.0, steps + 1, 8)), 1e-5, "rdp") > wall
    smaller = Budget(3.0, 1e-5, "rdp", wall).steps_that_fit(
        Entry(0.1, 4.0, 2000, 2), (Entry(0.1, 4.0, 40, 8),)
    )
    assert smaller == steps  # whichever came first
    plain = [
        Budget(*wall).steps_that_fit(Entry(0.1, 4.0, 10**4), ())
        for wall in ((3.0, 1e-5, "rdp", 1.0), (1.0, 1e-5, "rdp"))
    ]
    assert plain[0] == plain[1]  # plain steps count at it too


@pytest.mark.parametrize("shares", [1, 3, 50])
def test_alone_is_never_less_than_with_the_assumption(shares):
    entry = Entry(0.1, 6.0, 40, shares)
    assert compute_epsilon_alone((entry,), 1e-5) >= compute_epsilon((entry,), 1e-5) * (1 - 1e-3)


def test_what_no_accountant_can_resolve_is_infinite():
    assert compute_epsilon_alone((Entry(0.1, 1.0, 10**6, 100),), 1e-5) == math.inf
    assert compute_epsilon_alone((SHARED,), 1e-17) == math.inf


@pytest.mark.parametrize("kind", [Budget, OneMechanismBudget])
def test_both_walls_hold_and_the_nearer_one_decides(kind):
    spent = (Entry(0.1, 4.0, 10, 8),)

    def fitting(*wall: float) -> int:
        return kind(3.0, 1e-5, "pld", *wall).steps_that_fit(Entry(0.1, 4.0, 2000, 8), spent)

    def is_within(wall: float, more: int) -> bool:
        entries = (*spent, Entry(0.1, 4.0, more, 8))
        return compute_epsilon(entries, 1e-5) <= 3.0 and compute_epsilon_alone(entries, 1e-5) <= wall

    for wall in (1.0, 2.5, 6.0, 1000.0):
        steps = fitting(wall)
        assert not steps or is_within(wall, steps)
        assert not is_within(wall, steps + 1)
    assert fitting(1000.0) == fitting()


def test_the_ledger_keeps_to_the_second_wall_and_notes_it(tmp_path):
    budget, asked = Budget(3.0, 1e-5, "rdp", 2.5), range(1, 1000)
    requests = [ReservationRequest("data", "run", i, Entry(0.1, 4.0, 1, 8), budget) for i in asked]
    with Ledger.open(tmp_path / "l.sqlite") as ledger:
        ledger.register("data", "print", 100)
        answers = (ledger.reserve_all([request])[0] for request in requests)
        refused = next(answer for answer in answers if isinstance(answer, Exception))
        assert isinstance(refused, BudgetExhaustedError)
        assert "if the assumption behind secure sums fails, 2.4" in str(refused)
        spent = ledger.spent("data")
        assert compute_epsilon_alone(spent, 1e-5, "rdp") <= 2.5
        assert compute_epsilon(spent, 1e-5, "rdp") < 1.5
        assert ledger.accounts()[0].last_budget().epsilon_alone == 2.5
        ledger.register("other", "print 2", 100, source="elsewhere")
        ledger.reserve("other", "run", 1, Entry(0.1, 4.0, 1), Budget(3.0, 1e-5, "rdp"))
        assert '"epsilon_alone"' not in ledger.rows()[-1].content
