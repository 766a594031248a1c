"""A sweep from its file to its tables, with a launcher that only writes what runs would leave."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from launch.sweep.fakes import Launcher, leave

from fl_dp.durable_files import exclusive
from fl_dp.errors import ConfigError
from fl_dp.launch.exit_codes import ExitCode
from fl_dp.launch.sweep import sweep
from fl_dp.launch.sweep.plan import SweepFolder, SweepPlan
from fl_dp.launch.sweep.request import SweepRequest

PROGRAM = ("fl-dp",)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def plan(two_by_two: SweepRequest) -> SweepPlan:
    return sweep.planned(two_by_two, None)[1]


def test_it_says_first_what_it_will_do_on_whose_data(two_by_two, said, capsys):
    runs, plan, cost = sweep.planned(two_by_two, None)
    sweep.tell(runs, plan, cost, said.append)
    text = "\n".join(said)
    assert "4 runs: 2 combinations, 2 seeds" in text
    assert "data digits: public or synthetic: each run is a trial, with a ledger of its own" in text
    assert "on private data these would be epsilon" in text
    table = capsys.readouterr().out
    assert "epsilon=1  0, 1" in table
    assert (plan.public, plan.ledger) == (True, "")


def test_beside_runs_without_privacy_no_epsilon_is_claimed(read, said, tmp_path):
    asked = read('[grid]\nepsilon = [1]\n[[run]]\nname = "open"\nprivacy = "off"\n')
    runs, plan, cost = sweep.planned(asked, None)
    sweep.tell(runs, plan, cost, said.append)
    assert said[-1].endswith('without the runs of privacy = "off", and beside these no epsilon would hold')
    folder = SweepFolder(tmp_path / "out")
    sweep.start(plan, folder.path, "1", PROGRAM, said.append, run=Launcher(folder))
    assert "beside these no epsilon would hold; these are public" in "\n".join(said)


def test_it_runs_all_and_leaves_a_table(plan, said, tmp_path, capsys):
    folder = SweepFolder(tmp_path / "out")
    launcher = Launcher(folder)
    code = sweep.start(plan, folder.path, "1", PROGRAM, said.append, run=launcher)
    assert code == ExitCode.TRAINED
    words = list(launcher.jobs[0].command)
    assert words[:5] == ["fl-dp", "run", "--simulate", "--config", str(folder.config("epsilon=1,seed=0"))]
    assert words[5:] == ["--out", str(folder.run("epsilon=1,seed=0").path)]
    text = "\n".join(said)
    assert "[1/4] epsilon=1,seed=0 completed: accuracy 0.750, epsilon 0.50, 2.0 s; about 6 s left" in text
    assert "the epsilon of a chosen model is that of the whole sweep" in text
    assert len(folder.csv.read_text().splitlines()) == 5
    assert "2 completed" in capsys.readouterr().out


def test_one_that_fails_ends_no_other(plan, said, tmp_path):
    folder = SweepFolder(tmp_path / "out")
    launcher = Launcher(folder, failing="epsilon=1,seed=1")
    assert sweep.start(plan, folder.path, "1", PROGRAM, said.append, run=launcher) == ExitCode.FAILED
    assert len(launcher.jobs) == 4
    assert "FAILED (exit code 1)" in "\n".join(said)
    assert "error: cause" in "\n".join(said)


def test_ctrl_c_leaves_it_resumable_and_what_is_over_is_not_run_again(plan, said, tmp_path):
    folder = SweepFolder(tmp_path / "out")
    with pytest.raises(KeyboardInterrupt):
        sweep.start(plan, folder.path, "1", PROGRAM, said.append, run=Launcher(folder, stop_after=1))
    assert "--resume" in "\n".join(said)
    launcher = Launcher(folder)
    assert sweep.resume(folder.path, plan, "1", PROGRAM, said.append, run=launcher) == ExitCode.TRAINED
    begun = str(folder.run("epsilon=1,seed=1").path)
    assert [job.name for job in launcher.jobs] == ["epsilon=1,seed=1", "epsilon=3,seed=0", "epsilon=3,seed=1"]
    assert launcher.jobs[0].command == ["fl-dp", "run", "--resume", begun]
    assert "3 runs to do, 1 run over" in "\n".join(said)
    launcher = Launcher(folder)
    assert sweep.resume(folder.path, None, "1", PROGRAM, said.append, run=launcher) == ExitCode.TRAINED
    assert launcher.jobs == []


def test_a_run_that_ended_before_it_had_begun_is_started_anew(plan, said, tmp_path):
    folder = SweepFolder(tmp_path / "out")
    sweep.start(plan, folder.path, "1", PROGRAM, said.append, run=lambda *_, **__: None)
    leave(folder, "epsilon=1,seed=0", None)
    folder.run("epsilon=1,seed=0").launch.unlink()
    launcher = Launcher(folder)
    sweep.resume(folder.path, None, "1", PROGRAM, said.append, run=launcher)
    assert "--simulate" in launcher.jobs[0].command


def test_a_run_whose_config_was_changed_is_not_gone_on_with(plan, said, tmp_path):
    folder = SweepFolder(tmp_path / "out")
    sweep.start(plan, folder.path, "1", PROGRAM, said.append, run=lambda *_, **__: None)
    leave(folder, "epsilon=1,seed=0", None)
    file = folder.run("epsilon=1,seed=0").config
    file.write_text(file.read_text().replace("epsilon = 1.0", "epsilon = 2.0"))
    with pytest.raises(ConfigError, match=r"has epsilon = 2.0; the sweep was fixed with 1.0"):
        sweep.resume(folder.path, None, "1", PROGRAM, said.append, run=Launcher(folder))


def test_a_folder_holds_one_sweep(plan, said, tmp_path):
    sweep.start(plan, tmp_path / "out", "1", PROGRAM, said.append, run=lambda *_, **__: None)
    with pytest.raises(ConfigError, match="already holds a sweep; go on with it by --resume"):
        sweep.start(plan, tmp_path / "out", "1", PROGRAM, said.append, run=lambda *_, **__: None)


def test_private_data_pay_from_a_ledger_that_lasts(read, tmp_path, said):
    asked = read(
        f'[base]\ndata = "{_private(tmp_path)}"\nnoise-multiplier = 6.0\n[grid]\nmomentum = [0, 0.5]\n'
    )
    with pytest.raises(ConfigError, match=r"counts as private.*--ledger DIR.*data = \"digits\""):
        sweep.planned(asked, None)
    runs, plan, cost = sweep.planned(asked, tmp_path / "ledger")
    sweep.tell(runs, plan, cost, said.append)
    assert "private: every run's updates are seen, and all runs pay in full" in "\n".join(said)
    folder = SweepFolder(tmp_path / "out")
    launcher = Launcher(folder)
    sweep.start(plan, folder.path, "auto", PROGRAM, said.append, run=launcher)
    assert launcher.jobs[1].command[-2:] == ["--ledger", str(tmp_path / "ledger")]
    assert "of the whole sweep" not in said[-3]
    assert "--vary-mechanism" not in launcher.jobs[0].command


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[grid]\nepsilon = [1, 3]\n",
            r"(?s)nothing was started: epsilon=3,seed=0: epsilon 3 alone.*\n  - One noise for.*\n  - Choose",
        ),
        (
            "[grid]\nnoise-multiplier = [4, 6]\n",
            r"(?s)one mechanism.*\n  - vary-mechanism = true.*\n  - Or on synthetic",
        ),
        ("seeds = [0, 1]\n", "parts would share records"),
        ('[base]\nprivacy = "off"\n', "no epsilon would hold for them any more"),
    ],
)
def test_what_a_ledger_would_decline_is_said_before_anything_starts(read, tmp_path, said, text, expected):
    base = "" if "[base]" in text else "[base]\n"
    asked = read(_with_data(text, base, _private(tmp_path)))
    runs, plan, cost = sweep.planned(asked, tmp_path / "ledger")
    with pytest.raises(ConfigError, match=expected):
        sweep.tell(runs, plan, cost, said.append)


def test_a_grid_over_noise_that_is_fixed_beforehand_may_be_run(read, tmp_path, said):
    text = (
        f'vary-mechanism = true\n[base]\ndata = "{_private(tmp_path)}"\n[grid]\nnoise-multiplier = [4, 6]\n'
    )
    runs, plan, cost = sweep.planned(read(text), tmp_path / "ledger")
    sweep.tell(runs, plan, cost, said.append)
    folder = SweepFolder(tmp_path / "out")
    launcher = Launcher(folder)
    sweep.start(plan, folder.path, "1", PROGRAM, said.append, run=launcher)
    assert launcher.jobs[0].command[-1] == "--vary-mechanism"
    assert json.loads(folder.plan.read_text())["vary_mechanism"] is True


def test_what_was_trained_before_was_not_fixed_before_any_result(read, tmp_path, said):
    text = (
        f'vary-mechanism = true\n[base]\ndata = "{_private(tmp_path)}"\n[grid]\nnoise-multiplier = [4, 6]\n'
    )
    runs, plan, cost = sweep.planned(read(text), tmp_path / "ledger")
    with pytest.raises(ConfigError, match="holds earlier rounds of these data"):
        sweep.tell(runs, plan, dataclasses.replace(cost, before=True), said.append)


def test_records_that_are_declared_synthetic_are_trials(read, tmp_path):
    asked = read(f'public = true\n[base]\ndata = "{_private(tmp_path)}"\n[grid]\nepsilon = [1, 3]\n')
    assert sweep.planned(asked, None)[1].public


def test_it_is_shown_at_any_time(plan, said, tmp_path, capsys):
    folder = SweepFolder(tmp_path / "out")
    sweep.start(plan, folder.path, "1", PROGRAM, said.append, run=lambda *_, **__: None)
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


def _private(folder: Path) -> str:
    """The data set of a file with records that nobody has called public."""
    file = folder / "x.npz"
    rows = np.arange(400)
    x = np.stack([rows % 7, rows % 5], 1).astype(np.float32)
    y = rows % 2
    np.savez(file, x_train=x, y_train=y, x_test=x[:40], y_test=y[:40], classes=np.array(["a", "b"]))
    return f"npz:{file}"


def _with_data(text: str, base: str, data: str) -> str:
    if base:
        return f'{text}{base}data = "{data}"\n'
    return text.replace("[base]\n", f'[base]\ndata = "{data}"\n')


def test_runs_that_measure_nothing_are_said_to(read, said):
    words = 'nothing: evaluate = "off" leaves accuracy and loss empty'
    runs, plan, cost = sweep.planned(read('[base]\nevaluate = "off"\n[grid]\nepsilon = [1, 3]\n'), None)
    sweep.tell(runs, plan, cost, said.append)
    assert f"note: these runs measure {words}" in "\n".join(said)
    said.clear()
    runs, plan, cost = sweep.planned(read("[grid]\nepsilon = [1, 3]\n"), None)
    sweep.tell(runs, plan, cost, said.append)
    assert words not in "\n".join(said)
