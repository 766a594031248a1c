"""What stands in model.json."""

import json
from pathlib import Path

import pytest
from torch import nn

from fl_dp.config.task import TaskSettings
from fl_dp.errors import ConfigError
from fl_dp.form import Form
from fl_dp.tasks.description import ModelDescription, describe
from fl_dp.tasks.records import records_of
from fl_dp.tasks.task import Task


class Own(Task):
    classes = 3

    def model(self) -> nn.Module:
        return nn.Linear(2, 3)

    def train_data(self) -> object:
        return [[1.0, 2.0]], [0]


def test_what_is_built_in_is_told_by_name_and_the_data_by_their_form() -> None:
    task = Task(TaskSettings(data="digits", model="linear"))
    records_of(task, "test")
    found = describe(task)
    assert (found.task, found.identity, found.model, found.data) == ("", "", "linear", "digits")
    assert found.form == Form((1, 8, 8), 10)
    assert found.classes == tuple("0123456789")


def test_what_is_the_tasks_own_is_not_told_as_built_in() -> None:
    found = describe(Own(TaskSettings(model="linear", data="npz:/secret/a.npz")))
    assert (found.task, found.model, found.data, found.loss) == ("Own", "", "", "cross-entropy")
    assert found.identity
    assert found.form is None
    assert found.classes == ("0", "1", "2")


def test_it_comes_back_from_its_file(tmp_path: Path) -> None:
    task = Own(TaskSettings())
    task.form = Form((2,), 3)
    written = describe(task)
    (tmp_path / "model.json").write_text(json.dumps(written.to_dict()))
    assert ModelDescription.read(tmp_path / "model.json") == written


NO_SIZE = {"input_shape": [-1], "outputs": 2, "targets": "class", "vocabulary": 0}
NO_TARGETS = {"input_shape": [1], "outputs": 2, "targets": "code", "vocabulary": 0}


@pytest.mark.parametrize(
    ("key", "value"), [("task", 1), ("classes", 3), ("form", NO_SIZE), ("form", NO_TARGETS)]
)
def test_anything_else_is_damaged(tmp_path: Path, key: str, value: object) -> None:
    (tmp_path / "model.json").write_text(json.dumps({**describe(Own(TaskSettings())).to_dict(), key: value}))
    with pytest.raises(ConfigError, match="is damaged"):
        ModelDescription.read(tmp_path / "model.json")
