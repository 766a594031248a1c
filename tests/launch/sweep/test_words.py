"""What is said of a choice from a sweep on private data; nothing of it may be less than what was spent."""

import pytest
from launch.sweep.fakes import leave

from fl_dp.launch.sweep.plan import PlannedRun, SweepFolder, SweepPlan
from fl_dp.launch.sweep.results import rows_of
from fl_dp.launch.sweep.words import footer, result_line

CONFIG = {"accountant": "pld", "rounds": 2}


@pytest.fixture
def folder(tmp_path: object) -> SweepFolder:
    return SweepFolder(tmp_path)


def plan_of(public: bool) -> SweepPlan:
    runs = tuple(PlannedRun(name, name, 0, {}, CONFIG) for name in ("a", "b"))
    return SweepPlan(runs, public, "" if public else "/ledger", False, 2.0, 1e-5)


def test_while_a_sweep_on_private_data_goes_on_the_whole_plan_counts(folder):
    plan = plan_of(False)
    leave(folder, "a", "completed")
    text = footer(plan, rows_of(plan, folder), 0.5)
    assert "of the whole sweep as it was fixed, 2.00 at delta 1e-05; 0.50 at delta 1e-05 is spent" in text
    assert "as it was fixed, 2.50" in footer(plan, rows_of(plan, folder), 2.5)


def test_when_it_is_over_what_all_have_spent_counts(folder):
    plan = plan_of(False)
    for name in ("a", "b"):
        leave(folder, name, "completed")
    assert "that of all of them on these data, 1.91 at delta 1e-05." in footer(
        plan, rows_of(plan, folder), 1.9001
    )


def test_public_data_are_said_to_be_public(folder):
    plan = plan_of(True)
    assert "On private data it would be 1.90 at delta 1e-05; these are public" in footer(plan, [], 1.9)


def test_the_line_of_a_run(folder):
    plan = plan_of(True)
    leave(folder, "a", "completed")
    done, waiting = rows_of(plan, folder)
    assert result_line(done) == "completed: accuracy 0.750, epsilon 0.50"
    assert result_line(waiting) == "waiting"
