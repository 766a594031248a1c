import csv

import pytest
from launch.sweep.fakes import leave

from fl_dp.launch.sweep.plan import PlannedRun, SweepFolder, SweepPlan
from fl_dp.launch.sweep.results import rows_of
from fl_dp.launch.sweep.table import print_results, write_csv


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
