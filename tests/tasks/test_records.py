"""A site's records, as its task gives them."""

import dataclasses

import numpy as np
import pytest
import torch

from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.config.task import TaskSettings
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import DataError, TaskError
from fl_dp.form import Form
from fl_dp.launch.validation import validate
from fl_dp.tasks.load import new_model, task_of
from fl_dp.tasks.records import as_data, evaluation_records, load_part, load_parts, records_of
from fl_dp.tasks.task import Task


def of(path, **settings):
    return task_of(TaskSettings(task=str(path), **settings))


def test_inputs_and_targets_become_a_data_set(write):
    task = of(write())
    train, test = records_of(task, "train"), records_of(task, "test")
    assert train.form == test.form == task.form == Form((6,), 2)
    assert train.classes == ("low", "high")
    assert test.y.tolist() == [0, 1, 0, 1]
    assert records_of(task, "train") is train


def test_a_client_has_its_part_of_them(write):
    config = ClientConfig(client="a", ledger="l", task=str(write()), num_partitions=2)
    parts = [load_part(dataclasses.replace(config, partition_id=k)) for k in range(2)]
    assert sorted(int(row[0]) for part in parts for row in part.x) == list(range(0, 60, 6))
    run = RunConfig(task=config.task, clients=2)
    train, indices = load_parts(run)
    assert [len(one) for one in indices] == [len(part) for part in parts]
    assert len(train) == 10


@pytest.mark.parametrize(
    ("x", "y", "kind", "form"),
    [
        (np.zeros((3, 8, 2)), np.array([0, 1, 1], np.int32), {"classes": 2}, Form((8, 2), 2)),
        (np.zeros((3, 8)), [0.5, 1.0, 2.0], {}, Form((8,), 1, "numbers")),
        # classes are declared and never counted: the largest label of private records is theirs to keep
        (np.zeros((3, 8)), [0, 1, 2], {}, Form((8,), 1, "numbers")),
        (np.zeros((3, 8)), np.zeros((3, 2)), {"classes": ("a", "b")}, Form((8,), 2, "numbers")),
        (np.zeros((3, 5), np.int16), [1, 0, 1], {"classes": 2, "vocabulary": 9}, Form((5,), 2, "class", 9)),
        (np.zeros((3, 1, 4, 4), np.uint8), [1, 0, 1], {"classes": 2}, Form((1, 4, 4), 2)),
    ],
)
def test_arrays_and_lists_of_the_usual_kinds(x, y, kind, form):
    task = type("Some", (Task,), kind)(TaskSettings())
    assert as_data(task, (x, y)).form == form


@pytest.mark.parametrize("found", [None, 5, (1, 2, 3), "data"])
def test_what_is_no_pair_is_refused(found):
    with pytest.raises(DataError, match="Expected inputs and targets"):
        as_data(Task(TaskSettings()), found)


def test_what_a_tasks_code_raises_names_no_record_to_others(write, task_text):
    task = of(
        write(task_text.replace("inputs = torch.arange(60.0)", "raise KeyError('patient 17')\n        #"))
    )
    with pytest.raises(TaskError, match=r"train_data\(\) raised KeyError"):
        records_of(task, "train")


def test_a_data_set_of_fl_dps_own_kind_passes_as_it_is():
    data = TensorData(torch.zeros(3, 2), torch.zeros(3), ())

    class Given(Task):
        def train_data(self):
            return data

    assert records_of(Given(TaskSettings()), "train") is data


def test_without_test_data_the_server_says_so_or_evaluates_nothing(write, task_text):
    path = write(task_text.replace("return torch.zeros(4, 6), [0, 1, 0, 1]", "return None"))
    config = RunConfig(task=str(path))
    with pytest.raises(DataError, match='set evaluate = "off"'):
        evaluation_records(config, task_of(config))
    off = RunConfig(task=str(path), evaluate="off")
    assert evaluation_records(off, task_of(off)) is None
    assert new_model(task_of(off)) is not None


def test_without_test_data_a_built_in_model_takes_its_shape_from_the_training_data():
    config = RunConfig(evaluate="off")
    task = Task(config)
    assert evaluation_records(config, task) is None
    assert task.form == Form((1, 8, 8), 10)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("count", [2**40, 2**20 + 1])
def test_a_count_of_classes_that_no_model_has_is_refused_before_they_are_named(count: int) -> None:
    """A billion names take gigabytes, and columns of numbers in every answer."""

    class Many(Task):
        classes = count

    for use in (Many, lambda: validate(torch.nn.Linear(3, 2), (torch.ones(2, 3), [0, count]))):
        with pytest.raises(DataError, match="Expected 1048576 classes at most"):
            use()
