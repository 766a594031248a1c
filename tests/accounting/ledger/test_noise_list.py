"""A list of noise is noted whole before an account's first step, fits its budget whole, and is kept to."""

import json
from dataclasses import replace

import pytest

from fl_dp.accounting import epsilon
from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger import database
from fl_dp.accounting.ledger.event_log import EventLog
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.ledger.noise_list import to_fields
from fl_dp.accounting.ledger.requests import ReservationRequest
from fl_dp.errors import BudgetExhaustedError, DeclinedError, LedgerError
from fl_dp.federation.client.one_mechanism import OneMechanismBudget
from fl_dp.records import Entry

LIST = tuple(Entry(0.1, noise, 5) for noise in (3.0, 2.0, 2.0, 1.0))
BUDGET = OneMechanismBudget(Budget(9.0, 1e-5, "rdp").epsilon_of(LIST), 1e-5, "rdp")  # exactly all of it
PLAIN = Budget(9.0, 1e-5, "rdp")  # as with vary-mechanism


def ask(ledger, number, *, entry=None, listed=LIST, run="run", budget=BUDGET):
    """What the ledger answers to a request for that round of the list."""
    request = ReservationRequest("digits", run, number, entry or listed[number - 1], budget, listed=listed)
    return ledger.reserve_all([request])[0]


def kinds(ledger):
    return [json.loads(row.content)["kind"] for row in ledger.rows()]


def test_the_list_stands_before_its_first_round_and_rounds_may_be_missed(ledger):
    for number, run in ((1, "run"), (2, "run"), (4, "another name")):
        assert ask(ledger, number, run=run).entry == LIST[number - 1]
    assert kinds(ledger) == ["register", "list", "reserve", "reserve", "reserve"]
    (account,) = ledger.accounts()
    assert account.listed == LIST
    assert ledger.spent("digits") == (LIST[3], LIST[1], LIST[0])
    ledger.retire("digits")
    ledger.register("digits", "f1", 1000)
    assert ask(ledger, 1, listed=LIST[1:], run="anew").entry == LIST[1]


@pytest.mark.parametrize("budget", [BUDGET, PLAIN], ids=["one mechanism", "vary-mechanism"])
@pytest.mark.parametrize(
    ("number", "changes", "words"),
    [
        (1, {"run": "another"}, "rounds 3 to 4 are left"),  # back to the cheap one
        (2, {"run": "another"}, "rounds 3 to 4 are left"),  # twice
        (3, {"entry": LIST[3]}, "at noise multiplier 1 is not what"),  # swapped
        (3, {"entry": replace(LIST[2], steps=4)}, "4 steps at noise multiplier 2 is not what"),
        (3, {"entry": replace(LIST[2], sample_rate=0.05)}, "is not what"),
        (5, {"entry": LIST[3]}, "rounds 3 to 4 are left"),
        (3, {"listed": LIST[:3]}, "is of another list, or of none"),
        (3, {"listed": (*LIST, LIST[3])}, "is of another list, or of none"),
        (3, {"listed": (), "entry": LIST[2]}, "is of another list, or of none"),
    ],
)
def test_nothing_else_is_paid_for(ledger, number, changes, words, budget):
    ask(ledger, 1, budget=budget)
    ask(ledger, 2, budget=budget)
    before = ledger.rows()
    answer = ask(ledger, number, budget=budget, **changes)
    assert isinstance(answer, DeclinedError)
    assert words in str(answer)
    assert ledger.rows() == before
    assert ask(ledger, 3, budget=budget).entry == LIST[2]


def test_the_whole_list_must_fit_whatever_is_asked_of_it(ledger):
    """Otherwise a server could choose by results which rounds to take within the budget."""
    less = replace(BUDGET, epsilon=BUDGET.epsilon * (1 - 1e-9))
    for number, limit in ((1, less), (4, less), (1, replace(BUDGET, epsilon_alone=less.epsilon))):
        answer = ask(ledger, number, budget=limit)
        assert isinstance(answer, BudgetExhaustedError)
        assert "The whole list of 4 rounds costs epsilon" in str(answer)
    assert kinds(ledger) == ["register"]
    assert ask(ledger, 1).entry == LIST[0]
    assert isinstance(ask(ledger, 2, budget=less), BudgetExhaustedError)  # its operator lowered it


def test_steps_without_protection_are_noted_beside_a_list_and_end_it(path):
    with Ledger.open(path) as ledger:
        ask(ledger, 1)
        ledger.reserve("digits", "open", 1, Entry(0.1, 0.0, 5), None)
    with Ledger.open(path) as ledger:
        assert "trained without protection" in str(ask(ledger, 2))


@pytest.mark.parametrize("budget", [BUDGET, PLAIN], ids=["one mechanism", "vary-mechanism"])
def test_an_account_that_has_paid_takes_no_list(ledger, budget):
    ledger.reserve("digits", "run", 1, LIST[0], budget)
    answer = ask(ledger, 2, budget=budget)
    assert isinstance(answer, DeclinedError)
    assert "must be noted before an account's first step" in str(answer)


@pytest.mark.parametrize(
    "other",
    [
        Entry(0.1, 2.0, 6),
        Entry(0.2, 2.0, 5),
        Entry(0.1, 2.0, 5, shares=2),
    ],
)
def test_rounds_that_differ_in_more_than_noise_are_no_list(ledger, other):
    assert "differ in more than noise" in str(ask(ledger, 1, listed=(LIST[0], other), budget=PLAIN))
    assert kinds(ledger) == ["register"]


def test_a_ledger_whose_rounds_leave_their_list_is_not_sound(path):
    with Ledger.open(path) as ledger:
        ask(ledger, 2)
    log = EventLog.open(path, create=False)
    with log.writing():
        log.append({**log.new_events()[-1].content, "round": 1})
    log.close()
    with pytest.raises(LedgerError, match="entry 4 of the ledger is no round that its account's list has"):
        Ledger.open(path)


def test_others_may_pay_while_a_list_is_computed(path, monkeypatch):
    """A list of fifty multipliers takes an accountant most of a minute: a server that asks for one must not
    keep the ledger from the data sets of other runs meanwhile.
    """
    real = epsilon.find_accountant

    def others_pay(name):
        with Ledger.open(path) as other:
            other.register("faces", "f2", 1000)  # LedgerError if it had to wait
        return real(name)

    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.1)
    with Ledger.open(path) as ledger:
        epsilon._compute.cache_clear()
        monkeypatch.setattr(epsilon, "find_accountant", others_pay)
        assert ask(ledger, 1).entry == LIST[0]
        assert [one.dataset for one in ledger.accounts()] == ["digits", "faces"]


@pytest.mark.parametrize("number", [1, 2])
def test_a_list_that_was_noted_after_a_step_or_twice_is_not_sound(path, number):
    """It would pass for one that was fixed before any result was seen."""
    with Ledger.open(path) as ledger:
        if number == 1:
            ledger.reserve("digits", "run", 1, LIST[0], BUDGET)
        else:
            ask(ledger, 1)
    log = EventLog.open(path, create=False)
    with log.writing():
        log.new_events()
        log.append({"kind": "list", "time": "", "dataset": "digits", **to_fields(LIST)})
    log.close()
    with pytest.raises(LedgerError, match="a list that its account had no place for"):
        Ledger.open(path)
