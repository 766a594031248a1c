"""A task by its name, and what its code may do to the process that loads it."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from fl_dp.config.task import TaskSettings
from fl_dp.errors import ConfigError, ModelError, TaskError
from fl_dp.form import Form
from fl_dp.tasks.identity import identity
from fl_dp.tasks.load import absolute_task, give, new_model, task_class, task_of
from fl_dp.tasks.records import forget, records_of
from fl_dp.tasks.task import Task


def of(path, **settings):
    return task_of(TaskSettings(task=str(path), **settings))


def test_a_file_of_ones_own_is_loaded_once(write):
    path = write()
    task = of(path)
    assert type(task).__name__ == "Mine"
    assert isinstance(new_model(task)[0], nn.Linear)
    assert not task.built_in
    assert of(path) is task is not of(path, seed=1)
    assert type(of(path, seed=1)) is type(task)


def test_of_several_tasks_one_is_named(write, task_text):
    path = write(task_text + "\nclass Other(Mine):\n    pass\n")
    with pytest.raises(ConfigError, match=r"expected one class that is a fl_dp.Task, found Mine, Other"):
        of(path)
    assert type(of(f"{path}:Other")).__name__ == "Other"
    with pytest.raises(ConfigError, match=r"has no class Third that is a fl_dp.Task"):
        of(f"{path}:Third")


def test_what_is_imported_is_no_task_of_the_file(write, task_text):
    path = write("from first import Mine\n\nclass Other(Mine):\n    pass\n", first=task_text)
    assert type(of(path)).__name__ == "Other"


def test_a_module_that_can_be_imported(write, task_text, monkeypatch):
    path = write("", installed_task=task_text)
    monkeypatch.syspath_prepend(path.parent)
    assert type(of("installed_task:Mine")).__name__ == "Mine"


SHAPE = r"expected FILE.py, FILE.py:NAME or package.module:NAME"


@pytest.mark.parametrize(
    ("name", "text", "error", "words"),
    [
        *((name, "", ConfigError, SHAPE) for name in ("my_task", "package.module", ":Mine")),
        ("gone.py", "", ConfigError, r"gone.py'.*: no such file"),
        # what cannot be imported is no error of fl_dp
        ("my_task.py", "raise ValueError('of mine')", TaskError, "cannot be imported: ValueError: of mine"),
        ("my_task.py", "class :", TaskError, "cannot be imported: SyntaxError"),
    ],
)
def test_what_is_no_task_is_refused_by_its_name(write, monkeypatch, name, text, error, words):
    monkeypatch.chdir(write(text).parent)
    with pytest.raises(error, match=words):
        task_class(absolute_task(name))


def test_names_become_absolute_where_they_are_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert absolute_task("my_task.py") == f"{tmp_path}/my_task.py"
    assert absolute_task("my_task.py:Mine") == f"{tmp_path}/my_task.py:Mine"
    assert absolute_task("package.module:Mine") == "package.module:Mine"


def test_the_seed_decides_the_weights_and_the_random_state_stays(write):
    path, before = write(), torch.get_rng_state()
    first, again, other = (new_model(of(path, seed=seed))[0].weight for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("model", "words"),
    [
        # also fl_dp's own errors, whose words might leave a client
        (
            "from fl_dp.errors import ModelError; raise ModelError('patient 17') #",
            r"task Mine: model\(\) raised ModelError: patient 17",
        ),
        ("return 5 #", "returned int, expected a torch.nn.Module"),
    ],
)
def test_what_model_raises_or_returns_amiss_is_marked_as_the_users_own(write, task_text, model, words):
    with pytest.raises(TaskError, match=words):
        new_model(of(write(task_text.replace("return nn.Sequential", model))))


def test_what_built_in_tasks_raise_stays_what_it_is():
    task = Task(TaskSettings(model="tanh-cnn"))
    with pytest.raises(TaskError, match="no data were read yet"):
        new_model(task)
    task.form = Form((5,), 2)
    with pytest.raises(ModelError, match="does not fit data of shape"):
        new_model(task)


def test_nothing_beside_a_task_takes_the_place_of_what_is_installed(write, task_text):
    path = write(task_text, json="raise SystemExit('mine')", torch="raise SystemExit('mine')")
    code = (
        f"from fl_dp.tasks.load import task_class\ntask_class({str(path)!r})\n"
        "import json, csv\nprint(json.dumps(1))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.stdout.strip() == "1", found.stderr


def test_no_code_of_a_users_own_is_built_in():
    """Its digest would be empty, and its errors would leave a client as they are."""
    with pytest.raises(TypeError, match="only fl_dp's own tasks are built in"):

        class Mine(Task, built_in=True):
            pass


CELL = """
class Ours(Task):
    classes = {classes}
    def model(self):
        return {model}
    def train_data(self):
        return {data}
"""


def of_notebook(**parts: str) -> type[Task]:
    """A class that no file holds."""
    space: dict[str, object] = {"Task": Task, "__name__": "__main__"}
    defaults = {"classes": "('a', 'b')", "model": "None", "data": "None"}
    exec(CELL.format(**{**defaults, **parts}), space)
    found = space["Ours"]
    assert isinstance(found, type)
    return found


def given(kind: type[Task]) -> Task:
    return task_of(TaskSettings(task=give(kind)))


def test_the_last_class_of_a_name_counts() -> None:
    first, second = of_notebook(), of_notebook()
    assert type(given(first)) is first
    assert type(given(second)) is second


def test_its_data_are_read_anew_each_time_it_is_given() -> None:
    kind = of_notebook(data="([[1.0], [2.0]], [0, 1])")
    assert len(records_of(given(kind), "train") or ()) == 2
    kind.train_data = lambda self: ([[1.0], [2.0], [3.0]], [0, 1, 1])  # type: ignore[method-assign]
    assert len(records_of(given(kind), "train") or ()) == 3


@pytest.mark.parametrize("kind", [int, Task(TaskSettings()), None])
def test_what_is_no_class_of_a_task_is_refused(kind: object) -> None:
    with pytest.raises(ConfigError, match=r"expected a class that is a fl_dp\.Task"):
        give(kind)  # type: ignore[arg-type]


def test_a_class_of_another_process_is_named() -> None:
    with pytest.raises(ConfigError, match="'given:Absent': a class of another Python process"):
        task_of(TaskSettings(task="given:Absent"))


def test_without_a_file_its_own_parts_decide_and_its_data_do_not() -> None:
    same = identity(given(of_notebook()))
    assert identity(given(of_notebook(data="5"))) == same
    assert identity(given(of_notebook(model="1"))) != same
    assert identity(given(of_notebook(classes="('a', 'c')"))) != same


def test_a_file_that_was_edited_is_imported_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)  # as for most users
    file = tmp_path / "task.py"
    head = "from fl_dp import Task\nclass Ours(Task):\n"
    for classes in (("a", "b"), ("c", "d")):
        file.write_text(f"{head}    classes = {classes!r}\n")
        forget()
        assert task_of(TaskSettings(task=str(file))).classes == classes
