"""Accounts of test records: what is claimed of them, and what their ledgers have paid."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from verify.made_run import DELTA, RUN, Json, MadeRun

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.records import TEST_RECORDS, Entry

ONE = Entry(1.0, 6.0, 1)
LIMIT = Budget(2.0, DELTA)


def site(evaluations: int, **changes: Any) -> Json:
    spent = ONE.taking(evaluations)
    return {
        "status": "evaluated",
        "reason": "",
        "accountant": "pld",
        "epsilon": LIMIT.epsilon_of([spent]),
        "delta": DELTA,
        "budget": 2.0,
        "charges": [spent.to_dict()],
        **changes,
    }


def measured(evaluations: int, **changes: Any) -> Json:
    one = site(evaluations)
    return {
        "epsilon": one["epsilon"],
        "delta": DELTA,
        "metrics": {},
        "sites": {"north": one},
        **changes,
    }


@pytest.fixture
def own(made_run: MadeRun, tmp_path: Path) -> MadeRun:
    """Each of its three rounds is evaluated at north, from an account of its own."""
    shutil.copytree(made_run.ledgers["north"].parent, tmp_path / "ledger")
    made_run.ledgers = {"north": tmp_path / "ledger" / "ledger.sqlite"}
    with Ledger.open(made_run.ledgers["north"]) as ledger:
        name = "north's data" + TEST_RECORDS
        ledger.register(name, "f" * 64, 100)
        for server_round in (1, 2, 3):
            ledger.commit(ledger.reserve(name, RUN, server_round, ONE, LIMIT))
    made_run.change_rounds(lambda line: line.update(site_metrics=measured(line["round"])))
    return made_run


def words(run: MadeRun, **given: bool) -> str:
    return run.words("site-metrics", **given)


def test_what_was_evaluated_is_what_was_paid(own: MadeRun) -> None:
    assert words(own, ledgers=True) == ""
    (said,) = own.check(ledgers=True)["site-metrics"].findings
    assert "test records of 1 site in 3 evaluations" in said.what
    assert own.words("ledgers", ledgers=True) == ""  # not taken for an account of training


def test_what_a_later_run_has_paid_is_not_this_ones(own: MadeRun) -> None:
    with Ledger.open(own.ledgers["north"]) as ledger:
        ledger.commit(ledger.reserve("north's data" + TEST_RECORDS, "later", 1, ONE, LIMIT))
    assert words(own, ledgers=True) == ""


def test_a_run_without_them_says_nothing(made_run: MadeRun) -> None:
    assert made_run.check()["site-metrics"].findings == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: one.update(epsilon=0.1), "epsilon 0.1000 of test records, and its charges cost"),
        (lambda one: one.update(budget=0.1), "of a budget of 0.1"),
        (lambda one: one.update(charges=[ONE.to_dict()]), "lack earlier evaluations"),
        (lambda one: one["charges"][0].update(sample_rate=0.5), "something else than equal evaluations"),
        (lambda one: one.update(charges=[]), "something else than equal evaluations"),
        (lambda one: one.pop("epsilon"), "epsilon 0.0000 of test records, and its charges cost"),
        (lambda one: [one.pop("epsilon"), one.pop("charges")], "something else than equal evaluations"),
        (lambda one: [one.pop("delta"), one.update(epsilon=0.1)], "delta 0 "),
        (lambda one: one.update(delta=1.0, epsilon=0.1), "delta 1 "),
    ],
)
def test_a_forged_account_is_found(own: MadeRun, change: Any, said: str) -> None:
    def forge(line: Json) -> None:
        if line["round"] == 3:
            change(line["site_metrics"]["sites"]["north"])

    own.change_rounds(forge)
    assert said in words(own)


@pytest.mark.parametrize(
    ("alone", "said"),
    [
        (1.0, ""),
        (0.5, "epsilon alone"),
        (None, "does not say what holds if their assumption fails"),
    ],
)
def test_what_evaluations_in_secure_sums_cost_alone_is_computed_again(
    own: MadeRun, alone: float | None, said: str
) -> None:
    """alone: of what the charges cost with their smallest share of noise in all evaluations."""

    def in_sums(line: Json) -> None:
        one = line["site_metrics"]["sites"]["north"]
        steps = one["charges"][0]["steps"]
        charges = [Entry(1.0, 6.0, 1, 4), *([Entry(1.0, 6.0, steps - 1, 2)] if steps > 1 else [])]
        one["charges"] = [entry.to_dict() for entry in sorted(charges)]
        if alone is not None:
            one["epsilon_alone"] = alone * Budget(9.0, DELTA).epsilon_of([Entry(1.0, 3.0, steps)])
            line["site_metrics"]["epsilon_alone"] = one["epsilon_alone"]

    own.change_rounds(in_sums)
    assert said in words(own) if said else words(own) == ""


@pytest.mark.parametrize(
    ("lowered", "said"),
    [
        ({"epsilon": 0.01}, "epsilon 0.0100, and a site's is"),
        ({"delta": DELTA / 10}, "delta 1e-06, and a site's is 1e-05"),
        ({"epsilon_alone": 0.01}, "epsilon alone 0.0100, and a site's is"),
    ],
)
def test_what_is_below_a_sites_is_found(own: MadeRun, lowered: Json, said: str) -> None:
    own.change_rounds(lambda line: line["site_metrics"].update(lowered))
    assert said in words(own)


def test_what_no_line_has_was_paid_all_the_same(own: MadeRun) -> None:
    def without(line: Json) -> None:
        if line["round"] == 3:
            del line["site_metrics"]

    own.change_rounds(without)
    assert "north's data, test records has paid for 3 evaluations" in words(own, ledgers=True)


def test_an_answer_that_was_lost_is_a_note(own: MadeRun) -> None:
    def lost(line: Json) -> None:
        if line["round"] == 3:
            line["site_metrics"]["sites"]["north"] = {"status": "failed", "reason": "no answer"}

    own.change_rounds(lost)
    assert words(own, ledgers=True) == ""
    notes = own.notes("site-metrics", ledgers=True)
    assert notes == ["north's data, test records has paid for evaluations that no line has"]


@pytest.mark.parametrize(
    ("charged", "epsilon", "said"),
    [
        (3, None, ""),  # two were shown; the third may be paid
        (3, 0.1, "epsilon 0.1000 of test records, and its charges cost"),
        (1, None, "lack earlier evaluations"),
        (0, 2.0, ""),  # nothing was shown
        (0, 1.9, "epsilon 1.9000 of test records whose account is not known"),
    ],
)
def test_what_may_have_been_paid_is_an_upper_bound(
    own: MadeRun, charged: int, epsilon: float | None, said: str
) -> None:
    def unheard(line: Json) -> None:
        if line["round"] == 3:
            one = site(charged) if charged else {**site(1), "charges": []}
            one |= {"status": "failed", "unheard": 1} | ({} if epsilon is None else {"epsilon": epsilon})
            line["site_metrics"] |= {"epsilon": one["epsilon"], "sites": {"north": one}}

    own.change_rounds(unheard)
    assert said in words(own, ledgers=True) if said else words(own, ledgers=True) == ""


def test_what_was_shown_after_a_bound_may_be_less(own: MadeRun) -> None:
    """The evaluation of round 2 was not paid for after all."""

    def unheard(line: Json) -> None:
        if line["round"] == 2:
            line["site_metrics"] = measured(4)
            line["site_metrics"]["sites"]["north"] |= {"status": "failed", "unheard": 2}

    own.change_rounds(unheard)
    assert words(own, ledgers=True) == ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda found: None, ""),
        (lambda found: found["sites"]["north"].update(epsilon=0.1), "epsilon 0.1000 of test records"),
        (lambda found: found.update(epsilon=0.1), "epsilon 0.1000, and a site's is"),
        (lambda found: found["sites"].update(north=site(2)), "lack earlier evaluations"),
        (lambda found: found["sites"].update(north=site(1, charges=[], unheard=1)), "account is not known"),
        (lambda found: found.update(sites={}), "no account of test records of north"),
    ],
)
def test_the_accounts_of_the_summary_which_the_page_shows_are_checked_too(
    own: MadeRun, change: Any, said: str
) -> None:
    """They were not: whoever made them lower, and drew the page again, was not found."""
    accounts = {"epsilon": site(3)["epsilon"], "delta": DELTA, "sites": {"north": site(3, unheard=0)}}
    change(accounts)
    own.change_summary(lambda summary: summary.update(test_accounts=accounts))
    assert said in words(own, ledgers=True) if said else words(own, ledgers=True) == ""


def test_damage_is_named(own: MadeRun) -> None:
    own.change_rounds(lambda line: line["site_metrics"].update(sites=[]))
    assert "line 1: is damaged: site_metrics.sites" in own.words("files")
