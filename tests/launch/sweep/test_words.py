"""What is said of a choice from a sweep on private data; nothing of it may be less than what was spent."""

from launch.sweep.fakes import leave

from fl_dp.launch.sweep.plan import PlannedRun, SweepFolder, SweepPlan
from fl_dp.launch.sweep.results import rows_of
from fl_dp.launch.sweep.words import footer, result_line

CONFIG = {"accountant": "pld", "rounds": 2}


def plan_of(public: bool) -> SweepPlan:
    runs = tuple(PlannedRun(name, name, 0, {}, CONFIG) for name in ("a", "b"))
    return SweepPlan(runs, public, "" if public else "/ledger", False, 2.0, 1e-5)


def test_on_private_data_the_whole_plan_counts_and_at_the_end_what_all_have_spent(tmp_path):
    plan, folder = plan_of(False), SweepFolder(tmp_path)
    leave(folder, "a", "completed")
    text = footer(plan, rows_of(plan, folder), 0.5)
    assert "of the whole sweep as it was fixed, 2.00 at delta 1e-05; 0.50 at delta 1e-05 is spent" in text
    assert "as it was fixed, 2.50" in footer(plan, rows_of(plan, folder), 2.5)
    leave(folder, "b", "completed")
    text = footer(plan, rows_of(plan, folder), 1.9001)
    assert "that of all of them on these data, 1.91 at delta 1e-05." in text


def test_public_data_are_said_to_be_public_and_a_run_has_a_line(tmp_path):
    plan, folder = plan_of(True), SweepFolder(tmp_path)
    assert "On private data it would be 1.90 at delta 1e-05; these are public" in footer(plan, [], 1.9)
    leave(folder, "a", "completed")
    done, waiting = rows_of(plan, folder)
    assert result_line(done) == "completed: accuracy 0.750, epsilon 0.50"
    assert result_line(waiting) == "waiting"
