"""A sweep from its file to its tables, with a launcher that only writes what runs would leave."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launch.sweep.fakes import Launcher, leave

from fl_dp.durable_files import exclusive
from fl_dp.errors import ConfigError
from fl_dp.launch.exit_codes import ExitCode
from fl_dp.launch.resumption import Launch
from fl_dp.launch.sweep import sweep
from fl_dp.launch.sweep.plan import SweepFolder, SweepPlan
from fl_dp.launch.sweep.sweep_file import SweepRequest
from fl_dp.reporting.run_folder import RunFolder

GRID = "[grid]\nnoise-multiplier = [4, 6]\n"


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def folder(tmp_path: Path) -> SweepFolder:
    return SweepFolder(tmp_path / "out")


@pytest.fixture
def plan(two_by_two: SweepRequest) -> SweepPlan:
    return sweep.planned(two_by_two, None)[1]


@pytest.fixture
def start(folder: SweepFolder, said: list[str]) -> Callable[..., ExitCode]:
    """Starts the plan's runs by a launcher; without one they are only planned."""

    def started(plan: SweepPlan, run: Any = lambda *_, **__: None, jobs: str = "1") -> ExitCode:
        return sweep.start(plan, folder.path, jobs, ("fl-dp",), said.append, run=run)

    return started


@pytest.fixture
def resume(folder: SweepFolder, said: list[str]) -> Callable[..., list[Any]]:
    """The jobs of a sweep that is gone on with; all end well."""

    def resumed(plan: SweepPlan | None = None) -> list[Any]:
        launcher = Launcher(folder)
        code = sweep.resume(folder.path, plan, "1", ("fl-dp",), said.append, run=launcher)
        assert code == ExitCode.TRAINED
        return launcher.jobs

    return resumed


@pytest.fixture
def private(tmp_path: Path) -> str:
    """The setting of a file with records that nobody has called public."""
    rows = np.arange(400)
    x, y = np.stack([rows % 7, rows % 5], 1).astype(np.float32), rows % 2
    test = {"x_test": x[:40], "y_test": y[:40], "classes": np.array(["a", "b"])}
    np.savez(tmp_path / "x.npz", x_train=x, y_train=y, **test)
    return f'[base]\ndata = "npz:{tmp_path}/x.npz"\n'


def test_it_says_first_what_it_will_do_on_whose_data(two_by_two, said, capsys):
    runs, plan, cost = sweep.planned(two_by_two, None)
    sweep.tell(runs, plan, cost, said.append)
    text = "\n".join(said)
    assert "4 runs: 2 combinations, 2 seeds" in text
    assert "the data digits are public or synthetic: each run is a trial with its own ledger" in text
    assert "on private data they would cost epsilon" in text
    assert "epsilon=1  0, 1" in capsys.readouterr().out
    assert (plan.public, plan.ledger) == (True, "")


def test_beside_runs_without_privacy_no_epsilon_is_claimed(read, said, start, folder):
    asked = read('[grid]\nepsilon = [1]\n[[run]]\nname = "open"\nprivacy = "off"\n')
    runs, plan, cost = sweep.planned(asked, None)
    sweep.tell(runs, plan, cost, said.append)
    assert said[-1].endswith('without the runs with privacy = "off"; with these no epsilon would hold')
    start(plan, Launcher(folder))
    assert "with these no epsilon would hold; these are public" in "\n".join(said)


def test_it_runs_all_and_leaves_a_table(plan, said, start, folder, capsys):
    launcher = Launcher(folder)
    assert start(plan, launcher) == ExitCode.TRAINED
    name = "epsilon=1,seed=0"
    words = ["fl-dp", "run", "--simulate", "--config", str(folder.config(name)), "--out"]
    assert launcher.jobs[0].command == [*words, str(folder.run(name).path)]
    text = "\n".join(said)
    assert f"[1/4] {name} completed: accuracy 0.750, epsilon 0.50, 2.0 s; about 6 s left" in text
    assert "the epsilon of a chosen model is that of the whole sweep" in text
    assert len(folder.csv.read_text().splitlines()) == 5
    assert "2 completed" in capsys.readouterr().out


def test_one_that_fails_ends_no_other(plan, said, start, folder):
    launcher = Launcher(folder, failing="epsilon=1,seed=1")
    assert start(plan, launcher) == ExitCode.FAILED
    assert len(launcher.jobs) == 4
    assert "FAILED (exit code 1)" in "\n".join(said)
    assert "error: cause" in "\n".join(said)


def test_ctrl_c_leaves_it_resumable_and_what_is_over_is_not_run_again(plan, said, start, resume, folder):
    with pytest.raises(KeyboardInterrupt):
        start(plan, Launcher(folder, stop_after=1))
    assert "--resume" in "\n".join(said)
    jobs = resume(plan)
    assert [job.name for job in jobs] == ["epsilon=1,seed=1", "epsilon=3,seed=0", "epsilon=3,seed=1"]
    assert jobs[0].command == ["fl-dp", "run", "--resume", str(folder.run("epsilon=1,seed=1").path)]
    assert "3 runs to do, 1 run over" in "\n".join(said)
    assert resume() == []


def test_a_run_that_ended_before_it_had_begun_is_started_anew(plan, start, resume, folder):
    start(plan)
    leave(folder, "epsilon=1,seed=0", None)
    folder.run("epsilon=1,seed=0").launch.unlink()
    assert "--simulate" in resume()[0].command


def test_a_run_whose_config_was_changed_is_not_gone_on_with(plan, start, resume, folder):
    start(plan)
    leave(folder, "epsilon=1,seed=0", None)
    file = folder.run("epsilon=1,seed=0").config
    file.write_text(file.read_text().replace("epsilon = 1.0", "epsilon = 2.0"))
    with pytest.raises(ConfigError, match=r"has epsilon = 2.0; the sweep was fixed with 1.0"):
        resume()


def test_a_folder_holds_one_sweep(plan, start):
    start(plan)
    with pytest.raises(ConfigError, match="already holds a sweep; resume it with --resume"):
        start(plan)


def test_private_data_pay_from_a_ledger_that_lasts(read, private, tmp_path, said, start, folder):
    asked = read(f"{private}noise-multiplier = 6.0\n[grid]\nmomentum = [0, 0.5]\n")
    with pytest.raises(ConfigError, match=r"counts as private.*--ledger DIR.*data = \"digits\""):
        sweep.planned(asked, None)
    runs, plan, cost = sweep.planned(asked, tmp_path / "ledger")
    sweep.tell(runs, plan, cost, said.append)
    assert "private: every run's updates are seen, so all runs pay in full" in "\n".join(said)
    launcher = Launcher(folder)
    start(plan, launcher, jobs="auto")
    assert launcher.jobs[1].command[-2:] == ["--ledger", str(tmp_path / "ledger")]
    assert "of the whole sweep" not in said[-3]
    assert "--vary-mechanism" not in launcher.jobs[0].command


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[grid]\nepsilon = [1, 3]\n",
            "nothing was started: epsilon=3,seed=0: for epsilon 3 .*\n  - Use one noise for.*\n  - Choose",
        ),
        (GRID, "one mechanism.*\n  - Set vary-mechanism = true.*\n  - Or choose them on synthetic"),
        ("", "parts would share records"),
        ('privacy = "off"\n', "no epsilon would hold for them afterwards"),
    ],
)
def test_what_a_ledger_would_decline_is_said_before_anything_starts(read, private, tmp_path, text, expected):
    seeds = "" if text else "seeds = [0, 1]\n"
    runs, plan, cost = sweep.planned(read(f"{seeds}{private}{text}"), tmp_path / "ledger")
    with pytest.raises(ConfigError, match=f"(?s){expected}"):
        sweep.tell(runs, plan, cost, print)


def test_a_grid_over_noise_that_is_fixed_before_any_result_may_be_run(read, private, tmp_path, start, folder):
    asked = read(f"vary-mechanism = true\n{private}{GRID}")
    runs, plan, cost = sweep.planned(asked, tmp_path / "ledger")
    sweep.tell(runs, plan, cost, print)
    launcher = Launcher(folder)
    start(plan, launcher)
    assert launcher.jobs[0].command[-1] == "--vary-mechanism"
    assert json.loads(folder.plan.read_text())["vary_mechanism"] is True
    with pytest.raises(ConfigError, match="has earlier rounds on these data"):
        sweep.tell(runs, plan, dataclasses.replace(cost, before=True), print)


def test_records_that_are_declared_synthetic_are_trials(read, private):
    assert sweep.planned(read(f"public = true\n{private}[grid]\nepsilon = [1, 3]\n"), None)[1].public


def test_it_is_shown_at_any_time(plan, said, start, folder, capsys):
    start(plan)
    leave(folder, "epsilon=3,seed=1", "completed")
    folder.csv.unlink()
    capsys.readouterr()
    sweep.show(folder.path, said.append)
    assert "1 waiting, 1 completed" in capsys.readouterr().out
    assert folder.csv.exists()
    folder.csv.unlink()
    with exclusive(folder.lock):
        sweep.show(folder.path, said.append)
    assert "is running" in said[-1]
    assert not folder.csv.exists()


@pytest.mark.parametrize("evaluate", ["off", "server"])
def test_runs_that_measure_nothing_are_said_to(read, said, evaluate):
    asked = read(f'[base]\nevaluate = "{evaluate}"\n[grid]\nepsilon = [1, 3]\n')
    sweep.tell(*sweep.planned(asked, None), said.append)
    words = 'note: these runs measure nothing: evaluate = "off" leaves accuracy and loss empty'
    assert (words in "\n".join(said)) == (evaluate == "off")


EMPTY = SweepPlan((), public=False, ledger="", vary_mechanism=False, epsilon=None, delta=1e-5, fixed="")


def test_a_launch_that_pays_elsewhere_is_refused(tmp_path):
    plan, folder = dataclasses.replace(EMPTY, ledger=str(tmp_path / "ledger")), RunFolder(tmp_path)
    start = Launch("ray", tmp_path / "ledger", "")
    start.write(folder)
    sweep._check_launch(plan, folder)
    for changed in ({"ledgers": tmp_path / "fresh"}, {"vary_mechanism": True}):
        dataclasses.replace(start, **changed).write(folder)
        with pytest.raises(ConfigError, match=r"launch\.toml: has another ledger or another vary-mechanism"):
            sweep._check_launch(plan, folder)
    Launch("ray", folder.ledgers, "").write(folder)  # a trial has its ledger in its own folder
    sweep._check_launch(EMPTY, folder)
