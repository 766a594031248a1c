"""A site measures what it receives on its own test rows, in a process that answers nobody."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from federation.client.sites import MODEL, PLAN, Site

from fl_dp.errors import ConfigError, DataError, TaskError
from fl_dp.federation.client.kept_states import kept_by
from fl_dp.federation.client.registration import task_identity
from fl_dp.federation.wire.arrays import encode, specs, state_arrays
from fl_dp.federation.wire.messages import plan_to_content, reply_from_content
from fl_dp.form import Form
from fl_dp.launch.site_models import evaluate_file
from fl_dp.models.build import build_model
from fl_dp.records import LocalUpdate
from fl_dp.tasks.load import new_model, task_of
from fl_dp.training.kept import OWN, RUN

pytestmark = pytest.mark.usefixtures("flower_task")

POISONED = """
import os
import torch
from fl_dp.tasks.task import Task

class Ours(Task):
    classes = 3

    def model(self):
        return torch.nn.Linear(4, 3)

    def train_data(self):
        return torch.randn(80, 4, generator=torch.Generator().manual_seed(0)), torch.arange(80) % 3

    def test_data(self):
        raise RuntimeError(f"read by {os.getpid()}: patient 17")
"""


def test_no_answer_reads_a_test_row(tmp_path):
    """Rows that end whoever reads them: the round is answered all the same."""
    (tmp_path / "ours.py").write_text(POISONED)
    task = str(tmp_path / "ours.py")
    site = Site(tmp_path, task=task, **{"num-partitions": 1, "public-size": 80, "seed": 3})
    model = torch.nn.Linear(4, 3)
    plan = replace(PLAN, task=task_identity(site.config), expected_batch_size=16)
    content = plan_to_content(plan, encode(state_arrays(model)))
    answer, problem = reply_from_content(site.call("train", content), specs(state_arrays(model)))
    assert problem == ""
    assert isinstance(answer, LocalUpdate), answer
    with pytest.raises(TaskError, match="patient 17"):
        evaluate_file(site.config, _weights(tmp_path, model))


def _weights(folder: Path, model: torch.nn.Module) -> Path:
    file = folder / "weights.pt"
    torch.save(model.state_dict(), file)
    return file


def test_a_file_or_a_runs_folder_is_measured(tmp_path):
    site = Site(tmp_path)
    line = evaluate_file(site.config, _weights(tmp_path, MODEL))
    assert "weights.pt, on 355 test rows of this site: loss " in line
    (tmp_path / "run").mkdir()
    torch.save(MODEL.state_dict(), tmp_path / "run" / "model.pt")
    assert evaluate_file(site.config, tmp_path / "run").split(": ")[1] == line.split(": ")[1]


def test_a_model_of_the_sites_own_is_measured_too(tmp_path):
    """On whatever model of that shape is given."""
    site = Site(tmp_path)
    own = site.train(replace(PLAN, local_algorithm="mr-mtl", pull=0.1))
    assert isinstance(own, LocalUpdate)
    trained = build_model("linear", Form((1, 8, 8), 10), seed=1)
    trained.load_state_dict({name: torch.tensor(array) for name, array in own.arrays.items()})
    alone = evaluate_file(Site(tmp_path / "..").config, _weights(tmp_path, trained))
    both = evaluate_file(site.config, _weights(tmp_path, MODEL)).splitlines()
    assert both[1].startswith("with this site's own parameters, after round 1 of run run-1, on 355")
    assert both[1].partition(": ")[2] == alone.partition(": ")[2] != both[0].partition(": ")[2]


def test_a_tied_parameter_goes_by_its_first_name(tmp_path):
    """A state dict has it twice; the second one is not to undo what is the site's own."""
    (tmp_path / "tied.py").write_text(TIED)
    site = Site(tmp_path, model=str(tmp_path / "tied.py:Tied"))
    task = task_of(site.config)
    task.form = Form((1, 8, 8), 10)
    model = new_model(task)
    zeros = {name: torch.zeros_like(one) for name, one in model.state_dict().items()}
    kept = {RUN: "r", OWN: {"a": model.state_dict()["a"] + 1.0}}
    kept_by(site.config).mkdir(parents=True)
    torch.save(kept, kept_by(site.config) / "model_x-3.pt")
    torch.save(zeros, tmp_path / "zeros.pt")
    torch.save({name: one + 1.0 for name, one in model.state_dict().items()}, tmp_path / "ones.pt")
    both = evaluate_file(site.config, tmp_path / "zeros.pt").splitlines()
    expected = evaluate_file(site.config, tmp_path / "ones.pt").splitlines()[0]
    assert both[1].partition(": ")[2] == expected.partition(": ")[2] != both[0].partition(": ")[2]


TIED = """
import torch
from torch import nn

class Tied(nn.Module):
    def __init__(self, form):
        super().__init__()
        self.a = nn.Parameter(torch.randn(10, 64, generator=torch.Generator().manual_seed(0)))
        self.b = self.a

    def forward(self, x):
        return x.flatten(1) @ self.a.T + x.flatten(1).tanh() @ self.b.T
"""


def test_what_cannot_be_measured_is_refused(tmp_path):
    config = Site(tmp_path).config
    (tmp_path / "other.pt").write_text("import os")
    for file, words in (
        (tmp_path, "no such file, or the folder of a run without a model"),
        (_weights(tmp_path, torch.nn.Linear(3, 2)), "not the weights of model linear"),
        (tmp_path / "other.pt", "cannot be read as weights"),
    ):
        with pytest.raises(ConfigError, match=words):
            evaluate_file(config, file)


def test_without_test_rows_it_is_said_at_once(tmp_path):
    (tmp_path / "ours.py").write_text(POISONED.replace('raise RuntimeError(f"read by', "return None #"))
    site = Site(tmp_path, task=str(tmp_path / "ours.py"), **{"num-partitions": 1})
    with pytest.raises(DataError, match="This site has no test rows"):
        evaluate_file(site.config, _weights(tmp_path, torch.nn.Linear(4, 3)))
