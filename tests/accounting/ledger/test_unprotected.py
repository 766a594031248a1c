"""Training without protection: noted before it begins, and no epsilon holds afterwards."""

import json
import math

import pytest

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.ledger.requests import ReservationRequest
from fl_dp.errors import BudgetExhaustedError, DeclinedError, LedgerError
from fl_dp.records import Entry
from fl_dp.reporting.ledger_report import account_reports

BUDGET = Budget(epsilon=3.0, delta=1e-5, accountant="rdp")
MECHANISM, NO_NOISE = (0.1, 1.0), (0.1, 0.0)


@pytest.fixture
def ledger(ledger):
    ledger.register("other", "f2", 1000)
    return ledger


def _unprotected(ledger, dataset="digits", run="bare", server_round=1):
    return ledger.reserve(dataset, run, server_round, Entry(*NO_NOISE, 500), None)


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
def test_steps_without_noise_cost_everything(accountant):
    budget = Budget(epsilon=1e9, delta=0.5, accountant=accountant)
    assert budget.epsilon_of([Entry(1e-9, 0.0, 1)]) == math.inf
    assert budget.steps_that_fit(Entry(0.1, 1.0, 1), [Entry(1e-9, 0.0, 1)]) == 0


def test_all_steps_are_taken_and_the_epsilon_is_infinite_from_then_on(ledger):
    _unprotected(ledger)  # and the power fails: it is noted before the first step
    assert ledger.spent("digits") == (Entry(0.1, 0.0, 500),)
    assert BUDGET.epsilon_of(ledger.spent("digits")) == math.inf
    (row,) = [json.loads(row.content) for row in ledger.rows() if "expose" in row.content]
    assert (row["kind"], row["run"], row["round"], row["dataset"]) == ("expose", "bare", 1, "digits")


def test_every_later_private_round_on_these_data_is_refused_with_the_reason(tmp_path, ledger):
    ledger.commit(_unprotected(ledger))
    words = "trained without protection in run bare; no epsilon holds for them any more"
    with pytest.raises(DeclinedError, match=words):
        ledger.reserve("digits", "run", 1, Entry(*MECHANISM, 1), BUDGET)
    with Ledger.open(tmp_path / "ledger.sqlite") as again, pytest.raises(DeclinedError, match=words):
        again.reserve("digits", "run", 1, Entry(*MECHANISM, 1), BUDGET)
    assert ledger.reserve("other", "run", 1, Entry(*MECHANISM, 1), BUDGET).entry.steps == 1


def test_private_rounds_before_it_are_lost_too_and_retiring_begins_anew_but_for_the_total(ledger):
    ledger.commit(ledger.reserve("digits", "run", 1, Entry(*MECHANISM, 2), BUDGET))
    ledger.commit(_unprotected(ledger))
    (digits, other) = account_reports(ledger.accounts())
    assert (digits.epsilon, digits.private, digits.taken) == (math.inf, False, 502)
    assert (other.epsilon, other.private) == (0.0, True)
    ledger.retire("digits")
    ledger.register("digits", "f1", 1000)
    assert ledger.reserve("digits", "run", 3, Entry(*MECHANISM, 2), BUDGET).entry.steps == 2
    new = account_reports(ledger.accounts())[-1]
    assert new.private
    assert new.epsilon < new.total.epsilon == math.inf


def test_no_wall_means_no_noise_and_no_noise_passes_no_wall(ledger):
    with pytest.raises(LedgerError, match="steps with noise need a budget"):
        ledger.reserve("digits", "run", 1, Entry(*MECHANISM, 1), None)
    with pytest.raises(BudgetExhaustedError):
        ledger.reserve("digits", "run", 1, Entry(*NO_NOISE, 1), BUDGET)
    assert ledger.spent("digits") == ()


def test_a_round_is_not_taken_twice_unless_its_result_is_the_same(ledger):
    def reserve(mechanism, budget, inputs):
        request = ReservationRequest("digits", "bare", 1, Entry(*mechanism, 500), budget, inputs=inputs)
        return ledger.reserve_all([request])[0]

    first = reserve(NO_NOISE, None, "i")
    with pytest.raises(DeclinedError, match="already taken"):
        _unprotected(ledger)
    assert reserve(NO_NOISE, None, "i") == first
    assert isinstance(reserve(MECHANISM, BUDGET, "j"), DeclinedError)
