"""`fl-dp validate`: findings on the console, and an exit code that says whether there were any."""

from pathlib import Path

import pytest

from fl_dp.cli.common import run_command
from fl_dp.cli.main import app

TASK = """\
import torch
from torch import nn

from fl_dp.tasks.task import Task


class Normed(Task):
    classes = 3

    def model(self):
        return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))

    def train_data(self):
        return torch.randn(30, 4), torch.arange(30) % 3

    def test_data(self):
        return None
"""


def test_findings_end_with_2_and_a_fix_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "normed.py"
    file.write_text(TASK)
    assert run_command(app, ["validate", str(file)]) == 2
    out = capsys.readouterr().out
    assert "found: model, layer 1: a batch norm mixes the examples of a batch" in out
    assert "spends epsilon" not in out
    assert run_command(app, ["validate", str(file), "--fix"]) == 0
    out = capsys.readouterr().out
    assert "changed: 1 batch norms are group norms now (1)" in out
    assert out.endswith("it can be trained\n")


def test_a_run_config_says_what_it_costs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "run.toml"
    config.write_text('data = "digits"\nnoise-multiplier = 2.0\naccountant = "rdp"\n')
    assert run_command(app, ["validate", "--config", str(config)]) == 0
    assert "spends epsilon" in capsys.readouterr().out
    assert run_command(app, ["validate", "--config", str(config), "--set", "loss=mse"]) == 2
    assert "found: loss: loss = 'mse': is for targets of numbers" in capsys.readouterr().out


def test_what_is_no_task_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(app, ["validate", "nowhere.py"]) == 2
    assert "no such file" in capsys.readouterr().err
