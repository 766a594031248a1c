"""`fl-dp sweep`: its words, up to the point where runs would be started."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fl_dp.cli.common import run_command
from fl_dp.cli.main import app
from fl_dp.launch.exit_codes import ExitCode
from fl_dp.launch.sweep import sweep as sweeps


@pytest.fixture(autouse=True)
def called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Any, ...]]:
    """What would have been started, resumed or shown; the working directory holds two sweeps' files."""
    seen: list[tuple[Any, ...]] = []

    def note(name: str) -> Any:
        return lambda *given: seen.append((name, *given)) or ExitCode.TRAINED

    for name in ("start", "resume", "show"):
        monkeypatch.setattr(sweeps, name, note(name))
    monkeypatch.chdir(tmp_path)
    x, y = np.zeros((400, 2), np.float32), np.arange(400) % 2
    np.savez("x.npz", x_train=x, y_train=y, x_test=x, y_test=y, classes=np.array(["a", "b"]))
    Path("public.toml").write_text('config = "configs/digits.toml"\n[grid]\nepsilon = [1, 3]\n')
    Path("private.toml").write_text('[base]\ndata = "npz:x.npz"\nnoise-multiplier = 6.0\n')
    return seen


def test_a_sweep_is_started_in_a_folder_of_its_name(called, capsys):
    assert run_command(app, ["sweep", "public.toml", "--jobs", "1"]) == 0
    (name, plan, out, jobs, program, _) = called[0]
    assert (name, out, jobs, len(plan.runs)) == ("start", Path("sweeps/public"), "1", 2)
    assert program[1:] == ("-P", "-m", "fl_dp.cli.main")
    assert capsys.readouterr().out.startswith("reading public.toml\n2 runs: ")


def test_a_plan_starts_nothing_and_a_sweep_is_shown(called, capsys):
    assert run_command(app, ["sweep", "public.toml", "--plan"]) == 0
    assert "\nestimated time: about " in capsys.readouterr().out
    assert called == []
    assert run_command(app, ["sweep", "--show", "D"]) == 0
    assert called[0][:2] == ("show", Path("D"))


def test_private_data_are_spent_by_a_yes_alone(called, monkeypatch, capsys):
    def closed(_):
        raise EOFError

    words = ["sweep", "private.toml", "--ledger", "L"]
    answers = ((closed, 2), (lambda _: "no", 2), (lambda _: "y", 2), (lambda _: "yes", 0))
    for answer, code in answers:
        monkeypatch.setattr("builtins.input", answer)
        assert run_command(app, words) == code
    assert [one[0] for one in called] == ["start"]
    assert called[0][1].ledger == str(Path("L").absolute())
    assert "nothing was started; to start, answer yes or give --yes" in capsys.readouterr().err
    assert run_command(app, [*words, "--yes"]) == 0
    assert len(called) == 2


def test_resuming_with_a_file_compares_it(called):
    assert run_command(app, ["sweep", "--resume", "D"]) == 0
    assert run_command(app, ["sweep", "public.toml", "--resume", "D"]) == 0
    assert [(one[0], one[1]) for one in called] == [("resume", Path("D"))] * 2
    assert called[0][2] is None
    assert [run.name for run in called[1][2].runs] == ["epsilon=1,seed=0", "epsilon=3,seed=0"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", "name a sweep file"),
        ("nowhere.toml", "nowhere.toml: no such sweep file"),
        ("--show D --resume E", "--resume: cannot be used with --show"),
        ("public.toml --show D", "SWEEP: cannot be used with --show"),
        ("--resume D --ledger E", "--ledger: cannot be used with --resume"),
        ("private.toml", "counts as private"),
        ("public.toml", "already holds a sweep; resume it with --resume sweeps/public"),
    ],
)
def test_a_mistake_is_one_line(called, capsys, words, expected):
    Path("sweeps/public").mkdir(parents=True)
    Path("sweeps/public/plan.json").write_text("{}")
    assert run_command(app, ["sweep", *words.split()]) == 2
    assert expected in capsys.readouterr().err
    assert called == []
