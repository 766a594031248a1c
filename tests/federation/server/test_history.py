"""What is known of a history is what its budget says, however seldom it is asked."""

from typing import Any

import pytest

from fl_dp.accounting.budget import Budget
from fl_dp.federation.server import history
from fl_dp.federation.server.history import history_of
from fl_dp.records import Entry

BUDGET = Budget(epsilon=3.0, delta=1e-5, accountant="rdp")
MECHANISM = Entry(0.1, 1.5, 10)
OTHER = Entry(0.05, 2.0, 7)


@pytest.fixture(autouse=True)
def _nothing_known() -> None:
    history.history_of.cache_clear()
    history._reach_of.cache_clear()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The planned steps of each question that reaches the accountant."""
    planned, real = [], Budget.steps_that_fit

    def counted(self: Budget, entry: Entry, spent: Any) -> int:
        planned.append(entry.steps)
        return real(self, entry, spent)

    monkeypatch.setattr(Budget, "steps_that_fit", counted)
    return planned


def spent(rounds: int, *others: Entry) -> tuple[Entry, ...]:
    own = (Entry(0.1, 1.5, 10 * rounds),) if rounds else ()
    return tuple(sorted((*own, *others)))


def exact_rounds_left(budget: Budget, held: tuple[Entry, ...], at_most: int) -> int:
    planned = 10 * at_most
    return -(-budget.steps_that_fit(Entry(0.1, 1.5, planned), held) // 10) if planned else 0


@pytest.mark.parametrize("others", [(), (OTHER,)])
@pytest.mark.parametrize("last", [3, 8, 60])  # rounds: all fit, all fit nearly, the budget ends before
def test_rounds_left_are_those_that_fit(last, others: tuple[Entry, ...]):
    for now in range(1, last + 1):
        for taken in range(0, now + 1, 2):
            found = history_of(BUDGET, MECHANISM, spent(taken, *others)).rounds_left(last - now)
            assert found == exact_rounds_left(BUDGET, spent(taken, *others), last - now)


@pytest.mark.parametrize("last", [8, 60])
def test_rounds_left_are_computed_once_or_twice_in_a_run(last, asked: list[int]):
    for now in range(1, last + 1):
        for taken in range(now + 1):
            alike = Budget(3.0, 1e-5, "rdp")  # another client's
            history_of(alike, MECHANISM, spent(taken)).rounds_left(last - now)
    assert 1 <= len(asked) <= 2


def test_steps_left_are_those_that_the_ledger_allows(asked: list[int]):
    """Also where a forecast is known: what a client may have spent is counted by them."""
    one = history_of(BUDGET, MECHANISM, spent(1))
    one.rounds_left(60)
    for planned in (1, 10, 25, 25, 600):
        assert one.steps_left(planned) == BUDGET.steps_that_fit(Entry(0.1, 1.5, planned), spent(1))
    assert asked.count(25) == 1 + 2  # of the history once, of this test twice


def test_without_a_mechanism_nothing_is_left_and_without_privacy_all():
    assert history_of(BUDGET, None, spent(1)).steps_left(5) == 0
    assert history_of(BUDGET, None, spent(1)).rounds_left(5) == 0
    unprotected = history_of(BUDGET, Entry(0.1, 0.0, 10), ())
    assert (unprotected.steps_left(5), unprotected.rounds_left(5)) == (5, 5)
