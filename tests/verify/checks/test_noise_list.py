"""A schedule of noise in a run's files: each round's noise is its own, and a ledger says if it was noted."""

from dataclasses import replace
from pathlib import Path

import pytest
from verify.made_run import DELTA, RATE, ROUNDS, RUN, SIZE, STEPS, Json, MadeRun, add_up

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.ledger.requests import ReservationRequest
from fl_dp.config.schedule import values_over
from fl_dp.errors import DeclinedError
from fl_dp.records import Entry

SCHEDULE = "linear:0.8"
LIST = tuple(Entry(RATE, noise, STEPS) for noise in values_over(SCHEDULE, 2.0, ROUNDS))


def as_listed(line: Json) -> None:
    """The charges of a run, or of a round, as if its rounds had been those of the list."""
    for name, one in line["clients"].items():
        taken = [LIST[k] for k in range(line.get("round", ROUNDS)) if name == "north" or k != 1]
        one["charges"] = [entry.to_dict() for entry in sorted(taken)]
        one["epsilon"] = compute_epsilon(taken, DELTA)
        one["noise_multiplier"] = LIST[line.get("round", ROUNDS) - 1].noise_multiplier
        if "planned_epsilon" in one:
            one["planned_epsilon"] = one["epsilon"]
    add_up(line)


@pytest.fixture
def listed(made_run: MadeRun) -> MadeRun:
    made_run.change_both(as_listed)
    return made_run


def test_a_run_by_a_schedule_agrees(listed: MadeRun) -> None:
    for check in ("epsilons", "files"):
        assert listed.words(check) == ""


def test_a_round_with_less_noise_than_its_own_is_found(listed: MadeRun) -> None:
    def lower(line: Json) -> None:
        if line["round"] == 2:
            line["clients"]["north"]["noise_multiplier"] = LIST[2].noise_multiplier

    listed.change_rounds(lower)
    assert "the charges lack 20 steps" in listed.words("files")


@pytest.mark.parametrize("noted", [True, False])
def test_a_ledger_says_whether_the_list_was_noted_before_the_first_step(
    made_run: MadeRun, tmp_path: Path, noted: bool
) -> None:
    made = replace(made_run, ledgers={"another": tmp_path / "ledger.sqlite"})
    with Ledger.open(made.ledgers["another"]) as ledger:
        ledger.register("data", "f", SIZE)
        for number, entry in enumerate(LIST, start=1):
            listed = LIST if noted else ()
            request = ReservationRequest("data", RUN, number, entry, Budget(9.0, DELTA), listed=listed)
            assert not isinstance(ledger.reserve_all([request])[0], DeclinedError)
    notes = made.notes("ledgers", ledgers=True)
    assert any("data: its rounds differ in rate or noise" in note for note in notes) != noted
