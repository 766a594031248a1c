import dataclasses
import json
from pathlib import Path

import pytest
from launch.sweep.fakes import looked_at

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.launch.sweep.costs import cost_of
from fl_dp.launch.sweep.plan import SweepFolder, SweepPlan


def plan_of(*budgets: float, rounds: int = 2, **more: object) -> SweepPlan:
    runs = [looked_at(f"epsilon={budget}", epsilon=budget, rounds=rounds) for budget in budgets]
    wanted = {"public": True, "ledger": "", "vary": False, **more}
    return SweepPlan.of(runs, cost_of(runs, None), **wanted)


@pytest.fixture
def folder(tmp_path: Path) -> SweepFolder:
    return SweepFolder(tmp_path)


def test_a_plan_is_read_as_it_was_written_and_refused_when_it_was_changed(folder):
    plan = plan_of(1.0, 3.0)
    plan.write(folder)
    assert SweepPlan.read(folder) == plan
    assert plan.digest() == plan_of(1.0, 3.0).digest()
    table = json.loads(folder.plan.read_text())
    table["runs"][1]["config"]["epsilon"] = 8.0
    folder.plan.write_text(json.dumps(table))
    with pytest.raises(ConfigError, match="was changed after the sweep was fixed"):
        SweepPlan.read(folder)


@pytest.mark.parametrize("text", ["", "[]", '{"format": 1, "digest": "", "runs": [{"a": 1}]}'])
def test_a_damaged_plan_is_refused(folder, text):
    with pytest.raises(ConfigError, match="holds no sweep"):
        SweepPlan.read(folder)
    folder.plan.write_text(text)
    with pytest.raises(ConfigError, match=r"plan.json: is damaged"):
        SweepPlan.read(folder)


def test_a_plan_of_another_format_is_declined_by_its_number(folder: SweepFolder) -> None:
    plan_of(1.0).write(folder)
    folder.plan.write_text(json.dumps({**json.loads(folder.plan.read_text()), "format": 2}))
    with pytest.raises(ConfigError, match=r"plan.json: was written by another version of fl_dp \(format 2\)"):
        SweepPlan.read(folder)


@pytest.mark.parametrize("name", ["../x", "/x", "a/b", "", ".", "..", "-x", "a\n"])
def test_a_name_that_leads_elsewhere_is_refused(folder, name):
    plan = plan_of(1.0)
    runs = (dataclasses.replace(plan.runs[0], name=name),)
    dataclasses.replace(plan, runs=runs).write(folder)
    with pytest.raises(ConfigError, match="is not a folder's name"):
        SweepPlan.read(folder)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (plan_of(1.0), "epsilon=3.0,seed=0 is gone"),
        (plan_of(1.0, 3.0, 8.0), "epsilon=8.0,seed=0 is new"),
        (plan_of(3.0, 1.0), "in another order"),
        (plan_of(1.0, 3.0, ledger="/l"), "ledger is '/l', it was ''"),
        (plan_of(1.0, 3.0, vary=True), "vary-mechanism is True"),
        (plan_of(1.0, 3.0, rounds=3), "epsilon=1.0,seed=0 has rounds = 3, it was 2"),
    ],
)
def test_another_sweep_is_refused_with_what_differs(other, expected):
    with pytest.raises(ConfigError, match=f"this sweep differs.*{expected}"):
        plan_of(1.0, 3.0).check_same(other)
    other.check_same(other)


def test_each_run_has_a_config_that_a_launch_reads(folder):
    plan = plan_of(1.0, 3.0)
    folder.write_configs(plan)
    assert [RunConfig.from_toml(folder.config(run.name)).epsilon for run in plan.runs] == [1.0, 3.0]
