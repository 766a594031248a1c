"""Charges from round to round."""

from collections.abc import Callable
from typing import Any

import pytest
from verify.made_run import RATE, STEPS, Json, MadeRun, epsilon


def in_round(number: int, client: str = "north", **fields: Any) -> Callable[[MadeRun], None]:
    def change(line: Json) -> None:
        if line["round"] == number:
            line["clients"][client] |= fields

    return lambda run: run.change_rounds(change)


def at_the_end(**fields: Any) -> Callable[[MadeRun], None]:
    return lambda run: run.change_client(**fields)


def charge(steps: int, noise: float = 1.5) -> list[Json]:
    return [{"sample_rate": RATE, "noise_multiplier": noise, "steps": steps}]


def of_run(steps: int) -> Json:
    return {"charges": charge(steps), "epsilon": epsilon(steps), "planned_epsilon": epsilon(steps)}


@pytest.mark.parametrize(
    ("forge", "words"),
    [
        (
            in_round(2, charges=charge(STEPS), steps=STEPS),
            "the charges lack 20 steps at rate 0.1 and noise 1.5",
        ),
        (in_round(2, charges=charge(STEPS), steps=STEPS), "line 2, client north"),
        (in_round(1, charges=charge(STEPS, 1.6)), "20 steps at rate 0.1 and noise 1.5 (rounds.jsonl, line 1"),
        (at_the_end(charges=charge(2 * STEPS), steps=2 * STEPS), "noise 1.5 (summary.json, client north)"),
        (at_the_end(before=charge(7)), "the charges lack 7 steps"),
        (at_the_end(this_run=of_run(2 * STEPS)), "this run's charges lack 20 steps"),
        (in_round(2, this_run=of_run(STEPS)), "this run's charges lack 20 steps"),
        (
            at_the_end(this_run=of_run(4 * STEPS)),
            "this run's charges hold 20 steps at rate 0.1 and noise 1.5 that no ledger has shown",
        ),
        (
            at_the_end(this_run=of_run(3 * STEPS), before=charge(7)),
            "the charges lack 7 steps at rate 0.1 and noise 1.5 to hold both",
        ),
        (at_the_end(steps=1), "1 step, and 60 in its charges"),
        (at_the_end(rounds=2), "2 rounds trained, and 3 in rounds.jsonl"),
        (at_the_end(budget=0.5), "of a budget of 0.5"),
        *(
            (in_round(3, status=one), f"{one}, with 20 steps of its own")
            for one in ("declined", "failed", "idle")
        ),
        (in_round(3, reported={}), "trained, with 0 steps of its own"),
        (in_round(2, sample_rate=None), "its sample rate or noise multiplier is missing"),
        (in_round(2, noise_multiplier=None), "its sample rate or noise multiplier is missing"),
    ],
)
def test_what_differs(forge: Callable[[MadeRun], None], words: str, made_run: MadeRun) -> None:
    forge(made_run)
    assert words in made_run.words("files")


def test_where_no_round_was_left_none_more_can_have_been_accepted(made_run: MadeRun) -> None:
    made_run.change_client(rounds=4)
    made_run.change_summary(lambda summary: summary.update(status="failed"))
    assert "4 rounds trained, and 3 in rounds.jsonl" in made_run.words("files")


def test_charges_that_grow_without_a_round_are_a_note(made_run: MadeRun) -> None:
    """Of another run on the same data."""

    def more(line: Json) -> None:
        south = line["clients"]["south"]
        if line.get("round", 3) >= 2:
            south["charges"][0]["steps"] += 5
            south["steps"] += 5

    made_run.change_rounds(more)
    made_run.change_summary(lambda summary: more(summary | {"round": 3}))
    assert made_run.words("files") == ""
    assert made_run.notes("files")[1:] == [
        "the charges grew by 5 steps at rate 0.1 and noise 1.5 in addition to the round's own"
    ]


def test_a_round_that_failed_may_cost_less_in_the_end(made_run: MadeRun) -> None:
    """What was not confirmed counts in full, until the client shows its ledger again."""
    in_round(2, "south", status="failed", charges=charge(2 * STEPS), steps=2 * STEPS)(made_run)
    assert made_run.words("files") == ""


def test_a_client_that_is_taken_out_of_later_rounds_is_missed(made_run: MadeRun) -> None:
    made_run.change_rounds(lambda line: line["round"] == 3 and line["clients"].pop("south"))
    assert "client south is missing (rounds.jsonl, line 3)" in made_run.words("files")


def test_a_budget_that_was_passed_before_the_run_is_a_note(made_run: MadeRun) -> None:
    idle = {"charges": charge(99), "steps": 99, "status": "idle", "reported": {}}
    made_run.change_rounds(lambda line: line["clients"]["south"].update(idle, budget=0.5))
    made_run.change_client("south", **idle, before=charge(99), budget=0.5, rounds=0)
    assert made_run.words("files") == ""
    assert any("of a budget of 0.5" in one for one in made_run.notes("files"))
