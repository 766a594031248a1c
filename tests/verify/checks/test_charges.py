"""Charges from round to round."""

from typing import Any

import pytest
from verify.made_run import RATE, STEPS, MadeRun

from fl_dp.verify.findings import Outcome

Json = dict[str, Any]


def what_differs(run: MadeRun) -> str:
    return " | ".join(f"{one.what} ({one.where})" for one in run.differs().get("charges", []))


def in_round(number: int, client: str, **fields: Any) -> Any:
    def change(line: Json) -> None:
        if line["round"] == number:
            line["clients"][client] |= fields

    return change


def charge(steps: int, noise: float = 1.5) -> list[Json]:
    return [{"sample_rate": RATE, "noise_multiplier": noise, "steps": steps}]


def test_nothing_is_ever_given_back(made_run: MadeRun) -> None:
    made_run.change_rounds(in_round(2, "north", charges=charge(STEPS), steps=STEPS))
    assert "the charges lack 20 steps" in what_differs(made_run)
    assert "line 2, client north" in what_differs(made_run)


def test_a_rounds_own_steps_are_charged_at_its_own_noise(made_run: MadeRun) -> None:
    made_run.change_rounds(in_round(1, "north", charges=charge(STEPS, 1.6)))
    assert "the charges lack 20 steps at rate 0.1 and noise 1.5 (rounds.jsonl, line 1" in what_differs(
        made_run
    )


def test_the_summary_holds_all_that_the_rounds_have_cost(made_run: MadeRun) -> None:
    made_run.change_summary(
        lambda summary: summary["clients"]["north"].update(charges=charge(2 * STEPS), steps=2 * STEPS)
    )
    assert "the charges lack 20 steps" in what_differs(made_run)
    assert "summary.json, client north" in what_differs(made_run)


def test_what_was_spent_before_the_run_is_charged_too(made_run: MadeRun) -> None:
    made_run.change_summary(lambda summary: summary["clients"]["north"].update(before=charge(7)))
    assert "the charges lack 7 steps" in what_differs(made_run)


def test_charges_that_grow_without_a_round_are_a_note(made_run: MadeRun) -> None:
    """Of another run on the same data."""

    def more(line: Json) -> None:
        south = line["clients"]["south"]
        if line.get("round", 3) >= 2:
            south["charges"][0]["steps"] += 5
            south["steps"] += 5

    made_run.change_rounds(more)
    made_run.change_summary(lambda summary: more(summary | {"round": 3}))
    assert what_differs(made_run) == ""
    notes = [one.what for one in made_run.check()["charges"].findings if one.outcome is Outcome.NOTE]
    assert notes == ["the charges grew by 5 steps at rate 0.1 and noise 1.5 beside the round's own"]


@pytest.mark.parametrize("status", ["declined", "failed", "idle"])
def test_only_who_trained_has_steps_of_its_own(status: str, made_run: MadeRun) -> None:
    made_run.change_rounds(in_round(3, "north", status=status))
    assert f"{status}, with 20 steps of its own" in what_differs(made_run)
    made_run.change_rounds(in_round(3, "north", status="trained", reported={}))
    assert "trained, without a step of its own" in what_differs(made_run)


def test_a_round_that_failed_may_cost_less_in_the_end(made_run: MadeRun) -> None:
    """What was not confirmed counts in full, until the client shows its ledger again."""

    def failed(line: Json) -> None:
        south = line["clients"]["south"]
        if line["round"] == 2:
            south |= {"status": "failed", "charges": charge(2 * STEPS), "steps": 2 * STEPS}

    made_run.change_rounds(failed)
    assert what_differs(made_run) == ""


def test_the_number_of_steps_and_rounds_is_counted_again(made_run: MadeRun) -> None:
    made_run.change_summary(lambda summary: summary["clients"]["north"].update(steps=1, rounds=2))
    assert "1 steps, and 60 in its charges" in what_differs(made_run)
    assert "2 rounds trained, and 3 in rounds.jsonl" in what_differs(made_run)


def test_no_budget_is_passed_by_who_trained(made_run: MadeRun) -> None:
    made_run.change_summary(lambda summary: summary["clients"]["north"].update(budget=0.5))
    assert "of a budget of 0.5" in what_differs(made_run)


def test_a_client_that_is_taken_out_of_later_rounds_is_missed(made_run: MadeRun) -> None:
    def without(line: Json) -> None:
        if line["round"] == 3:
            del line["clients"]["south"]

    made_run.change_rounds(without)
    assert "client south is missing (rounds.jsonl, line 3)" in what_differs(made_run)


def test_where_no_round_was_left_none_more_can_have_been_accepted(made_run: MadeRun) -> None:
    made_run.change_summary(
        lambda summary: summary["clients"]["north"].update(rounds=4) or summary.update(status="failed")
    )
    assert "4 rounds trained, and 3 in rounds.jsonl" in what_differs(made_run)


@pytest.mark.parametrize("name", ["sample_rate", "noise_multiplier"])
def test_who_trained_has_a_rate_and_a_noise(name: str, made_run: MadeRun) -> None:
    made_run.change_rounds(in_round(2, "north", **{name: None}))
    assert "its sample rate or noise multiplier is not there" in what_differs(made_run)


def test_a_budget_that_was_passed_before_the_run_is_a_note(made_run: MadeRun) -> None:
    def idle(line: Json) -> None:
        line["clients"]["south"] |= {"charges": charge(99), "steps": 99, "status": "idle", "reported": {}}

    def at_the_end(summary: Json) -> None:
        idle(summary)
        summary["clients"]["south"] |= {"before": charge(99), "budget": 0.5, "rounds": 0}

    made_run.change_rounds(idle)
    made_run.change_summary(at_the_end)
    assert what_differs(made_run) == ""
    notes = [one.what for one in made_run.check()["charges"].findings if one.outcome is Outcome.NOTE]
    assert any("of a budget of 0.5" in one for one in notes)
