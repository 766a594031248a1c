"""`fl-dp validate`: findings on the console, and an exit code that says whether there were any."""

from pathlib import Path

import numpy as np
import pytest

from fl_dp.cli.common import run_command
from fl_dp.cli.main import app
from fl_dp.config.task import TaskSettings
from fl_dp.tasks.load import task_of

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


def test_findings_end_with_2_and_a_fix_with_0(tmp_path, capsys):
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


@pytest.mark.parametrize(("metric", "code"), [("y.double().mean()", 0), ("x / None", 2)])
def test_a_metric_of_ones_own_is_tried(metric, code, tmp_path, capsys):
    text = TASK.replace("nn.BatchNorm1d(8)", "nn.Tanh()").replace("return None", "return self.train_data()")
    (tmp_path / "own.py").write_text(f"{text}\n    metrics = (lambda x, y: {metric},)\n")
    assert run_command(app, ["validate", str(tmp_path / "own.py")]) == code
    assert ("found: metrics: metrics of the task (<lambda>)" in capsys.readouterr().out) == bool(code)


def test_a_run_config_says_what_it_costs(tmp_path, capsys):
    config = tmp_path / "run.toml"
    config.write_text('data = "digits"\nnoise-multiplier = 2.0\naccountant = "rdp"\n')
    assert run_command(app, ["validate", "--config", str(config)]) == 0
    assert "spends epsilon" in capsys.readouterr().out
    assert run_command(app, ["validate", "--config", str(config), "--set", "loss=mse"]) == 2
    assert "found: loss: loss = 'mse': is for targets of numbers" in capsys.readouterr().out


def test_what_is_no_task_is_one_line(capsys):
    assert run_command(app, ["validate", "run.toml"]) == 2
    assert "a run config, not a task; name it so: fl-dp validate --config run.toml" in capsys.readouterr().err
    assert run_command(app, ["validate", "nowhere.py"]) == 2
    assert "no such file" in capsys.readouterr().err


def written(folder: Path, **clients: tuple[str, ...]) -> list[str]:
    """Files of clients with the splits that are said, and the words that name them all."""
    for client, splits in clients.items():
        arrays = {f"{name}_{split}": array for split in splits for name, array in ARRAYS.items()}
        np.savez(folder / f"{client}.npz", classes=np.array(["no", "yes"]), **arrays)
    return ["validate", "--set", f"data=npz:{folder}/{{client}}.npz", "--set", "model=linear"]


ARRAYS = {"x": np.eye(4), "y": np.array([0, 1, 1, 0])}


def test_of_clients_files_the_first_and_the_servers_are_read(tmp_path, capsys):
    words = written(tmp_path, **{"0": ("train",), "10": ("train",)}, server=("test",))
    (tmp_path / "10.npz").write_bytes(b"not read")
    assert run_command(app, words) == 0
    out = capsys.readouterr().out
    assert f"note: only npz:{tmp_path}/0.npz was read, and no other client's file" in out
    assert "no test data" not in out
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    words = written(wrong, **{"0": ("train",)})
    np.savez(wrong / "server.npz", x_test=np.eye(3), y_test=np.zeros(3, int), classes=["no", "yes"])
    assert run_command(app, words) == 2  # what is wrong with the server's file is found
    assert "found: test_data(): it gives numbers of shape (3,)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("files", "code", "words"),
    [
        (
            {"north": ("train",)},
            0,
            'note: no test data: the server then needs evaluate = "off"',
        ),  # a site's own
        ({"west": ("train",), "server": ("test",)}, 0, "/west.npz was read"),  # whatever comes first by name
        ({"server": ("test",)}, 2, "no file of a client was found, such as "),
    ],
)
def test_a_site_has_its_own_file_and_the_servers_is_no_clients(files, code, words, tmp_path, capsys):
    assert run_command(app, written(tmp_path, **files)) == code
    said = capsys.readouterr()
    assert words in (said.err if code else said.out)


def test_reading_clients_files_leaves_their_task_as_it_was(tmp_path):
    """Tasks are shared in a process: client 0's own, asked later, has its own test data."""
    words = written(tmp_path, **{"0": ("train", "test")})
    assert run_command(app, words) == 0
    settings = TaskSettings(data=f"npz:{tmp_path}/0.npz", model="linear")
    assert len(task_of(settings).test_data()) == 4
