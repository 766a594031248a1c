"""Everything that training refuses, found at once, each with its place."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fl_dp
from fl_dp.api.simulate import asked
from fl_dp.config.run import RunConfig
from fl_dp.config.task import TaskSettings
from fl_dp.errors import ConfigError, DataError
from fl_dp.models.group_norm import replace_batch_norms
from fl_dp.tasks.records import evaluation_records, load_parts
from fl_dp.tasks.task import Task
from fl_dp.tasks.validation import validate_task


class Ours(Task):
    classes = ("no", "yes", "perhaps")

    def model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))

    def train_data(self) -> Any:
        return torch.randn(30, 4), torch.arange(30) % 3

    def test_data(self) -> Any:
        return None


def found(kind: type[Task], **settings: Any) -> dict[str, str]:
    result = validate_task(kind(TaskSettings(**settings)))
    return {finding.where: finding.what for finding in result.findings}


def test_a_task_that_can_be_trained_has_nothing_to_mend() -> None:
    result = validate_task(Ours(TaskSettings()))
    assert result.ok, result
    assert "30 records, numbers of shape (4,) to 3 classes" in result.notes
    assert str(result).endswith("it can be trained")
    assert validate_task(Task(TaskSettings())).ok
    assert "loss" in found(Task, loss="mse")


def test_several_findings_at_once() -> None:
    class Bad(Ours):
        metrics = ("mae",)

        def model(self) -> nn.Module:
            return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 6), nn.BatchNorm1d(6))

        def train_data(self) -> Any:
            return torch.randn(30, 4), torch.zeros(30, dtype=torch.int64)

    result = validate_task(Bad(TaskSettings(loss="mse")))
    places = [finding.where for finding in result.findings]
    assert {"loss", "metrics", "model, layer 1", "model, layer 3", "model"} <= set(places)
    assert "no record here is of class yes, perhaps" in result.notes
    words = [str(finding) for finding in result.findings]
    assert any(word.startswith("loss: ") and "use cross-entropy" in word for word in words)
    assert "model: outputs of shape (4, 6) for 4 examples, expected (4, 3)" in "\n".join(words)


@pytest.mark.parametrize(
    ("compute", "words"),
    [
        (lambda m, x, y: F.cross_entropy(m(x), y), "shape () for 4 examples, expected (4,): each"),
        (lambda m, x, y: F.cross_entropy(m(x), y, reduction="none").detach(), "do not depend on a trainable"),
        (lambda m, x, y: F.cross_entropy(m(x), y, reduction="none") / m(x).detach().mean(), "example"),
        (lambda m, x, y: F.cross_entropy(m(x)[:, :2], y.unsqueeze(0), reduction="none"), "raised"),
        (lambda m, x, y: 3, "int for 4 examples"),
    ],
)
def test_losses_of_ones_own_are_tried(compute: Any, words: str) -> None:
    custom = type("Custom", (Ours,), {"losses": lambda self, model, batch: compute(model, *batch)})
    assert words in found(custom)["losses()"]


class Centred(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = super().forward(x)
        return out - out.mean(0)


def _torn(self: Task) -> Any:
    raise KeyError("age")


@pytest.mark.parametrize(
    ("part", "gives", "where", "words"),
    [
        ("model", lambda self: Centred(4, 3), "model", ""),  # mixes without a batch norm
        ("model", lambda self: nn.Linear(4, 3).requires_grad_(False), "model", "no parameter is trainable"),
        ("train_data", lambda self: (torch.full((3, 4), torch.nan), [0, 1, 2]), "train_data()", "NaN or inf"),
        ("train_data", lambda self: None, "train_data()", "it returns nothing"),
        ("train_data", _torn, "train_data()", "raised KeyError"),
        ("test_data", lambda self: (torch.randn(5, 9), [0] * 5), "test_data()", "(9,)"),
    ],
)
def test_what_cannot_be_trained_is_found(part: str, gives: Any, where: str, words: str) -> None:
    assert words in found(type("Changed", (Ours,), {part: gives}))[where]


def test_without_test_data_of_its_own_a_task_gets_one_finding() -> None:
    """The built-in test data have another form: what follows from it is not found as well."""
    findings = found(type("Forgetful", (Ours,), {"test_data": Task.test_data}))
    assert list(findings) == ["test_data()"]
    assert "no test_data() of its own" in findings["test_data()"]
    assert 'set evaluate = "off"' in findings["test_data()"]
    with pytest.raises(DataError, match=r"no test_data\(\) of its own, .* has other classes"):
        evaluation_records(RunConfig(), type("Forgetful", (Ours,), {"test_data": Task.test_data})())


def test_from_python_a_model_and_data_will_do() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    data = torch.randn(30, 4), torch.arange(30) % 3
    (found,) = fl_dp.validate(model, data).findings
    assert found.where == "model, layer 1"
    assert "fl_dp.models.group_norm.replace_batch_norms(model)" in found.what
    replace_batch_norms(model)
    fixed = fl_dp.validate(model, data)
    assert fixed.ok, fixed
    assert fixed.model is model
    numbers = fl_dp.validate(
        nn.Linear(4, 1), (torch.randn(30, 4), torch.randn(30)), config=RunConfig(loss="mse")
    )
    assert numbers.ok, numbers
    assert fl_dp.validate(Ours).ok
    with pytest.raises(ConfigError, match="a model alone has no data"):
        fl_dp.validate(model)
    with pytest.raises(ConfigError, match="not int"):
        fl_dp.validate(3)  # type: ignore[arg-type]


def test_what_a_run_asks_is_part_of_it() -> None:
    config = RunConfig(optimizer="muon", metrics="mae", epsilon=2.0)
    result = fl_dp.validate(Ours, config=config)
    places = [finding.where for finding in result.findings]
    assert places == ["metrics", "optimizer"]


def test_one_cause_is_one_finding(tmp_path: Any) -> None:
    """A missing file is met by training data, test data and the model that takes its shape from them."""
    missing = found(Task, data=f"csv:{tmp_path}/none.csv")
    assert list(missing) == ["train_data(), test_data()"]
    assert "no such file" in missing["train_data(), test_data()"]


def test_a_file_is_read_anew_at_each_call(tmp_path: Path) -> None:
    """One that is broken by now is not vouched for."""
    own, code = tmp_path / "own.npz", tmp_path / "mine.py"
    code.write_text("from torch import nn\n\ndef make(form):\n    return nn.Linear(3, 2)\n")
    names = {"classes": np.array(["no", "yes"])}
    x, y = np.eye(3, dtype=np.float32), np.array([0, 1, 1])

    def write(x: Any) -> None:
        before = own.stat() if own.exists() else None
        np.savez(own, x_train=x, y_train=y, x_test=x, y_test=y, **names)
        if before:
            os.utime(own, ns=(before.st_atime_ns, before.st_mtime_ns))

    def request() -> RunConfig:
        return asked(None, "", {"data": f"npz:{own}", "model": f"{code}:make", "clients": 1}).config

    write(x)
    config = request()
    assert load_parts(config)[0].x.sum() == 3
    write(2 * x)
    assert load_parts(request())[0].x.sum() == 6
    assert fl_dp.validate(config, config=config).ok
    write(x * np.nan)
    assert "finite" in str(fl_dp.validate(config, config=config))
    own.write_bytes(own.read_bytes()[:100])
    assert "readable .npz" in str(fl_dp.validate(config, config=config))
