"""A class of the driver's process, taken by another process that cannot import it."""

import pickle
import subprocess
import sys
import threading

import pytest

from fl_dp.errors import ConfigError
from fl_dp.simulation.work import given_task
from fl_dp.tasks.load import give
from fl_dp.tasks.task import Task

SCALE = 3

TAKE = """
import pickle, sys
from fl_dp.config.task import TaskSettings
from fl_dp.tasks.load import task_of
pickle.load(sys.stdin.buffer).take()
task = task_of(TaskSettings(task="given:Ours"))
print(task.train_data(), task.classes, task.built_in)
"""


class Ours(Task):
    classes = ("a", "b")

    def train_data(self) -> int:
        return SCALE * 2


def test_another_process_has_the_class_and_what_it_uses(tmp_path):
    given = given_task(give(Ours))
    result = subprocess.run(
        [sys.executable, "-c", TAKE],
        input=pickle.dumps(given),
        capture_output=True,
        check=False,
        cwd=tmp_path,
    )
    assert result.stdout.decode() == "6 ('a', 'b') False\n", result.stderr.decode()


def test_a_name_that_all_processes_can_look_up_is_not_packed():
    assert given_task("my_task.py") is None
    assert given_task("") is None


def test_a_class_that_cannot_be_packed_is_refused_with_the_way_out():
    class Holding(Task):
        lock = threading.Lock()

    with pytest.raises(ConfigError, match="put it in a file of its own, and name that"):
        given_task(give(Holding))
