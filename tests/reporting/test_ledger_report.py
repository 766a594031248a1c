"""Reports of a ledger: every epsilon is of what was really paid for, retired accounts included."""

import math

import pytest

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.records import Entry
from fl_dp.reporting.ledger_report import account_reports

BUDGET = Budget(epsilon=9.0, delta=1e-6, accountant="rdp")


@pytest.fixture
def accounts(tmp_path):
    """One retired after 3 steps, and its successor, of which 2 were committed and 5 only reserved."""
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        ledger.register("digits", "f1", 1000)
        ledger.commit(ledger.reserve("digits", "a", 1, Entry(0.1, 1.0, 3), BUDGET))
        ledger.retire("digits")
        ledger.register("digits", "f1", 1000)
        ledger.commit(ledger.reserve("digits", "b", 1, Entry(0.1, 1.0, 2), BUDGET))
        ledger.reserve("digits", "b", 2, Entry(0.2, 2.0, 5), BUDGET)
        return ledger.accounts()


def test_an_account_tells_its_epsilon_and_that_of_all_before_it(accounts):
    old, new = account_reports(accounts)
    assert (old.retirements, new.retirements) == (0, 1)
    assert old.epsilon == old.total.epsilon == compute_epsilon([Entry(0.1, 1.0, 3)], 1e-6, "rdp")
    assert new.epsilon == compute_epsilon([Entry(0.1, 1.0, 2), Entry(0.2, 2.0, 5)], 1e-6, "rdp")
    assert new.total.epsilon == compute_epsilon([Entry(0.1, 1.0, 5), Entry(0.2, 2.0, 5)], 1e-6, "rdp")
    assert (new.taken, len(new.rounds), new.uncommitted) == (7, 2, 1)
    assert (new.budget, new.delta, new.accountant) == (9.0, 1e-6, "rdp")


def test_what_records_have_spent_is_no_number_of_persons(tmp_path):
    """Twenty records of a person are not in an epsilon that was counted by the record."""
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        ledger.register("wards", "f1", 1000)
        ledger.commit(ledger.reserve("wards", "a", 1, Entry(0.1, 1.0, 3), BUDGET))
        ledger.retire("wards")
        ledger.register("wards", "f2", 100, unit="person", person_digests=lambda: [b"1" * 32])
        ledger.commit(ledger.reserve("wards", "b", 1, Entry(0.1, 1.0, 2), BUDGET))
        old, new = account_reports(ledger.accounts())
    assert (old.unit, new.unit) == ("record", "person")
    assert old.total.epsilon == old.epsilon
    assert new.total.epsilon == math.inf
    assert new.epsilon == compute_epsilon([Entry(0.1, 1.0, 2)], 1e-6, "rdp")


def test_epsilon_can_be_asked_for_at_another_delta(accounts):
    new = account_reports(accounts, delta=1e-9)[1]
    assert new.delta == 1e-9
    assert new.epsilon > account_reports(accounts)[1].epsilon
