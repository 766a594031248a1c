"""What is said of results; of a choice from private data nothing may be less than what was spent."""

import csv

import pytest
from launch.sweep.fakes import leave

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.launch.sweep.plan import PlannedRun, SweepFolder, SweepPlan
from fl_dp.launch.sweep.results import (
    cost_on_page,
    footer,
    own_epsilon,
    print_results,
    result_line,
    rows_of,
    write_csv,
    write_page,
)
from fl_dp.records import Entry
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.page import write


@pytest.fixture
def plan() -> SweepPlan:
    base = {"epsilon": 3.0, "rounds": 2, "accountant": "pld", "metrics": ""}
    runs = [
        PlannedRun(f"{point},seed={seed}", point, seed, {"data-name": name}, {**base, "data-name": name})
        for point, name in (("a", "=HYPERLINK(1)"), ("b", "plain"))
        for seed in (0, 1)
    ]
    return SweepPlan(tuple(runs), True, "", False, 1.0, 1e-5)


def test_a_row_for_each_run_whatever_became_of_it(plan, tmp_path):
    folder = SweepFolder(tmp_path)
    leave(folder, "a,seed=0", "completed", metrics={"accuracy": 0.75, "@f1": 0.5})
    leave(folder, "a,seed=1", None)
    folder.log("b,seed=0").parent.mkdir()
    folder.log("b,seed=0").write_text("error: no such data\n")
    write_csv(plan, rows_of(plan, folder), folder)
    with folder.csv.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows[0]) == len(set(rows[0]))
    assert [row["status"] for row in rows] == ["completed", "unfinished", "refused", "waiting"]
    assert rows[0]["set:data-name"] == "'=HYPERLINK(1)"
    assert (rows[0]["metric:@f1"], rows[0]["accuracy"], rows[0]["epsilon"]) == ("0.5", "0.75", "0.5")
    assert (rows[1]["rounds"], rows[1]["seconds"]) == ("1", "3.0")
    assert rows[2]["reason"] == "error: no such data"


def test_the_table_has_median_and_spread(plan, tmp_path, capsys):
    folder = SweepFolder(tmp_path)
    leave(folder, "a,seed=0", "completed", accuracy=0.5, epsilon=0.5)
    leave(folder, "a,seed=1", "completed", accuracy=0.8, epsilon=0.7)
    leave(folder, "b,seed=0", "completed", private=False, epsilon=None, accuracy=0.9)
    print_results(plan, rows_of(plan, folder))
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split()[:5] == ["a", "0.650", "0.500", "to", "0.800"]
    assert "0.70" in lines[2]
    assert "2 completed" in lines[2]
    assert " inf " in lines[3]
    assert "1 completed, 1 waiting" in lines[3]


def test_the_metrics_that_were_asked_for_have_a_column_each(plan, tmp_path, capsys):
    folder, by_class = SweepFolder(tmp_path), {"recall[2]": 0.1}
    leave(
        folder,
        "a,seed=0",
        "completed",
        accuracy=None,
        metrics={"f1": 0.5, "auroc": 0.9, "r2": 0.1, **by_class},
    )
    leave(folder, "a,seed=1", "completed", accuracy=None, metrics={"f1": 0.8, "auroc": None, **by_class})
    rows = rows_of(plan, folder)
    print_results(plan, rows)
    _, head, line, *_ = capsys.readouterr().out.splitlines()
    assert head.split() == [
        "run", "f1", "min", "to", "max", "auroc", "r2", "loss", "epsilon", "seconds",
        "runs",
    ]  # fmt: skip
    assert line.split()[1:6] == ["0.650", "0.500", "to", "0.800", "0.900"]
    assert line.split()[6] == "0.100"
    assert result_line(rows[0]).startswith("completed: f1 0.500,")


CHARGE = {"sample_rate": 0.1, "noise_multiplier": 4.0, "steps": 20}
CLIENT = {"status": "trained", "epsilon": 0.5, "accountant": "pld", "delta": 1e-5}
OF_WORDS = {"accountant": "pld", "rounds": 2}


def plan_of(public: bool) -> SweepPlan:
    runs = tuple(PlannedRun(name, name, 0, {}, OF_WORDS) for name in ("a", "b"))
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


def test_the_page_says_what_the_runs_own_steps_cost_and_no_ledger_of_later(tmp_path, capsys):
    plan, folder = plan_of(False), SweepFolder(tmp_path)
    earlier, other = ({"sample_rate": 0.1, "noise_multiplier": 4.0, "steps": steps} for steps in (50, 5))
    for name in "ab":
        charges = [{**CHARGE, "steps": 70}]
        clients = {
            "0": {**CLIENT, "charges": charges, "before": [earlier]},
            "1": {**CLIENT, "charges": [other]},
        }
        leave(folder, name, "completed", clients=clients)
    rows, epsilon = rows_of(plan, folder), rounded_up(compute_epsilon([Entry(0.1, 4.0, 40)], 1e-5))
    assert f"The steps of these runs alone cost {epsilon}." in footer(plan, rows, 99.0)
    print_results(plan, rows)
    head, line = (line.split() for line in capsys.readouterr().out.splitlines()[1:3])
    own = rounded_up(compute_epsilon([Entry(0.1, 4.0, 20)], 1e-5))  # the 20 of 70 after 50 earlier ones
    assert head[-6:] == ["loss", "epsilon", "own", "epsilon", "seconds", "runs"]
    assert line[-5:-3] == ["0.50", own]
    assert f"Their own steps cost the data {epsilon} at delta 1e-05;" in cost_on_page(plan, rows, folder)
    assert own_epsilon(plan, rows[:1]) == compute_epsilon([Entry(0.1, 4.0, 20)], 1e-5)
    another = {"sample_rate": 0.2, "noise_multiplier": 4.0, "steps": 5}  # of an account that was retired
    leave(folder, "b", "completed", clients={"0": {**CLIENT, "charges": [CHARGE], "before": [another]}})
    assert "not known from their files" in cost_on_page(plan, rows_of(plan, folder), folder)


def test_public_data_are_said_to_be_public_and_a_run_has_a_line(tmp_path):
    plan, folder = plan_of(True), SweepFolder(tmp_path)
    assert "On private data it would be 1.90 at delta 1e-05; these are public" in footer(plan, [], 1.9)
    leave(folder, "a", "completed")
    done, waiting = rows_of(plan, folder)
    assert result_line(done) == "completed: accuracy 0.750, epsilon 0.50"
    assert result_line(waiting) == "waiting"


def test_a_page_that_cannot_be_drawn_ends_no_sweep(tmp_path, monkeypatch):
    folder = SweepFolder(tmp_path)
    assert "holds no run" in write_page([folder.run("a")], folder, "")

    def broken(*_: object) -> None:
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr(write, "drawn_by", broken)
    assert write_page([], folder, "") == "no report.html: it could not be made (ZeroDivisionError)."
