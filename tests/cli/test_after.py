"""`fl-dp predict` and `fl-dp export`, after a run."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import tomli_w
import torch
from run_records import summary

from fl_dp.cli.common import run_command
from fl_dp.cli.main import app
from fl_dp.config.run import RunConfig
from fl_dp.config.task import TaskSettings
from fl_dp.form import Form
from fl_dp.reporting.run_results import RunResults
from fl_dp.tasks.description import describe
from fl_dp.tasks.load import new_model, task_of

TASK = """
from torch import nn
from fl_dp import Task
class Ours(Task):
    classes = ("no", "yes")
    def model(self):
        return nn.Linear(3, 2)
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run with a task of its own that is over."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_task.py").write_text(TASK)
    config = RunConfig(task=str(tmp_path / "my_task.py"))
    task = task_of(TaskSettings(**config.of_task()))
    task.form = Form((3,), 2)
    folder = tmp_path / "run"
    RunResults(folder).save_model(new_model(task).state_dict(), describe(task).to_dict(), private=True)
    (folder / "config.toml").write_text(tomli_w.dumps(dataclasses.replace(config, out=str(folder)).to_flat()))
    RunResults(folder, resumed=True).write_summary(summary())
    return folder


def test_new_data_are_answered_in_a_file_and_code_of_the_run_is_not_run_unasked(run, capsys):
    np.savez("new.npz", x=np.zeros((4, 3), np.float32))
    words = ["predict", "run", "--data", "npz:new.npz"]
    assert run_command(app, words) == 2
    assert "its own task, Ours; pass it (task=, or --task)" in capsys.readouterr().err
    assert not Path("predictions.csv").exists()
    assert run_command(app, [*words, "--task", "my_task.py"]) == 0
    assert "4 predictions in predictions.csv" in capsys.readouterr().out
    assert len(Path("predictions.csv").read_text().splitlines()) == 5


def test_weights_are_exported_without_any_code(run, capsys):
    assert run_command(app, ["export", "run", "--to", "state-dict"]) == 0
    assert "run/export/model.pt, with its card beside it" in capsys.readouterr().out
    assert set(torch.load(run / "export" / "model.pt", weights_only=True)) == {"weight", "bias"}
    assert json.loads((run / "export" / "card.json").read_text())["guarantee"]["epsilon"] == 1.0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["export", "run", "--to", "pickle"], "--to pickle: expected state-dict"),
        (["export", ".", "--to", "onnx"], "holds no run"),
        (["predict", "run", "--data", "npz:new.npz", "--set", "epsilon=1"], "epsilon: unknown key"),
        (["predict", "run", "--data", "npz:new.npz", "--set", "seed=x"], "seed = 'x': expected an integer"),
    ],
)
def test_a_bad_word_is_named(run, words, expected, capsys):
    assert run_command(app, words) == 2
    assert expected in capsys.readouterr().err
