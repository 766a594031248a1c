"""Classes without a file that others could import, and files that change while a process lives."""

import sys
from pathlib import Path

import pytest

from fl_dp.config.task import TaskSettings
from fl_dp.errors import ConfigError
from fl_dp.tasks.identity import identity
from fl_dp.tasks.load import give, task_of
from fl_dp.tasks.records import forget, records_of
from fl_dp.tasks.task import Task

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
