"""Random allocation in a run's files: its epsilons, and its own steps."""

import pytest
from verify.made_run import Json, MadeRun, add_up

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.records import Entry

STEPS_OF_A_PASS = 10


def as_allocated(line: Json) -> None:
    """The charges of a run, or of a round, as if they had been passes; with their epsilons."""
    for one in line["clients"].values():
        for entry in one["charges"]:
            entry["pass_steps"] = STEPS_OF_A_PASS
        one["epsilon"] = compute_epsilon(map(Entry.from_dict, one["charges"]), 1e-5)
        if "reported" in one:
            one["pass_steps"] = STEPS_OF_A_PASS
        if "planned_epsilon" in one:
            one["planned_epsilon"] = one["epsilon"]
    add_up(line)


@pytest.fixture
def allocated(made_run: MadeRun) -> MadeRun:
    made_run.change_both(as_allocated)
    return made_run


def test_a_run_of_passes_agrees_and_says_that_nobody_else_has_computed_it(allocated: MadeRun) -> None:
    for check in ("epsilons", "files"):
        assert allocated.words(check) == ""
    assert any("by fl_dp's own accountant" in note for note in allocated.notes("epsilons"))


def test_a_lowered_epsilon_of_passes_is_found(allocated: MadeRun) -> None:
    allocated.change_client("south", epsilon=1.0)
    assert "epsilon 1.0000, and its charges cost" in allocated.words("epsilons")


def test_a_rounds_own_steps_are_passes_too(allocated: MadeRun) -> None:
    def take(line: Json) -> None:
        line["clients"]["south"].pop("pass_steps")

    allocated.change_rounds(take)
    assert "the charges lack 20 steps" in allocated.words("files")

    def torn(line: Json) -> None:
        line["clients"]["south"] |= {"pass_steps": 7}

    allocated.change_rounds(torn)
    assert "its own steps are no charge" in allocated.words("files")
