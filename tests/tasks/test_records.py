"""A site's records, as its task gives them."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.config.task import TaskSettings
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError, DataError, TaskError
from fl_dp.federation.client.registration import dataset_name, numbered
from fl_dp.form import Form
from fl_dp.launch.clients import client_config
from fl_dp.launch.preflight import check_choices, check_server, split, with_absolute_paths
from fl_dp.launch.validation import validate
from fl_dp.tasks.load import new_model, task_of
from fl_dp.tasks.records import as_data, evaluation_records, load_part, load_parts, of_client, records_of
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
        (np.zeros((3, 8)), [[1], [0], [1]], {"classes": 2}, Form((8,), 2)),
        (np.zeros((3, 8)), np.array([True, False, True]), {"classes": 2}, Form((8,), 2)),
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
    own = RunConfig(task=str(path), personal="head.*")  # the server has no trained values of all parameters
    assert evaluation_records(own, task_of(own)) is None
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


def write(folder: Path, client: str, rows: int, **changed: Any) -> None:
    x = np.random.default_rng(int.from_bytes(client.encode(), "big")).normal(size=(rows, 4))
    arrays = {"x_train": x, "y_train": np.arange(rows) % 2, "classes": np.array(["no", "yes"])}
    named = {name: array for name, array in (arrays | changed).items() if array is not None}
    np.savez(folder / f"{client}.npz", **named)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for client, rows in (("0", 5), ("1", 7), ("2", 3)):
        write(tmp_path, client, rows)
    write(tmp_path, "server", 6, x_test=np.eye(4), y_test=np.array([0, 1, 1, 0]))
    return tmp_path


def run(folder: Path, **changed: Any) -> RunConfig:
    return RunConfig(clients=3, **({"data": f"npz:{folder}/{{client}}.npz"} | changed))


def test_a_simulation_has_all_files_each_as_a_part(folder: Path) -> None:
    config = run(folder)
    train, parts = load_parts(config)
    assert load_parts(run(folder))[0] is train  # read once for all
    assert [len(part) for part in parts] == [5, 7, 3]
    assert np.concatenate(parts).tolist() == list(range(15))
    template = client_config(config, 0, folder / "ledger")
    for client, part in enumerate(parts):
        of_part = train.subset(train.y.new_tensor(part)).fingerprint()
        assert load_part(client_config(config, client, folder / "ledger")).fingerprint() == of_part
        assert load_part(numbered(template, client, 3)).fingerprint() == of_part  # its own file whole
    with pytest.raises(ValueError, match="its own file and no other"):
        load_parts(template)


@pytest.mark.parametrize("name", ["0", "north"])
def test_a_deployed_client_reads_the_file_of_its_name(folder: Path, name: str) -> None:
    write(folder, "north", 9)
    config = ClientConfig(client=name, ledger="l", data=f"npz:{folder}/{{client}}.npz")
    assert len(load_part(config)) == {"0": 5, "north": 9}[name]


def test_the_server_reads_its_own_file_and_needs_none_without_evaluation(folder: Path) -> None:
    config = run(folder)
    task = task_of(config)
    found = evaluation_records(config, task)
    assert found is not None
    assert (len(found), task.form, task.class_names) == (4, found.form, ("no", "yes"))
    check_server(config)
    assert split(config)[1][0].startswith("the smallest client declares 4 records")
    (folder / "server.npz").unlink()
    with pytest.raises(DataError, match=r"server\.npz: no such file"):
        check_server(config)
    without = run(folder, evaluate="off")
    check_server(without)  # the form is that of client 0's
    evaluation_records(without, other := task_of(without))
    assert (other.form, other.class_names) == (task.form, task.class_names)  # as predictions name them


def test_a_schema_names_the_classes_of_tables_that_the_server_does_not_have(tmp_path: Path) -> None:
    (tmp_path / "form.toml").write_text(
        '[columns.age]\nkind = "number"\nrange = [0, 99]\n'
        '[columns.ill]\nkind = "label"\nclasses = ["no", "yes"]\n'
    )
    config = run(
        tmp_path, data=f"csv:{tmp_path}/{{client}}.csv", schema=str(tmp_path / "form.toml"), evaluate="off"
    )
    assert evaluation_records(config, task := task_of(config)) is None
    assert (task.form.outputs, task.class_names) == (2, ("no", "yes"))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"x_train": np.zeros((3, 5))}, r"client 2: expected records as client 0 has, numbers"),
        ({"classes": np.array(["yes", "no"])}, r"client 2: expected classes as client 0 has, \('no'"),
        ({"classes": np.array(["no", "yes", "?"])}, "client 2: expected records as client 0 has"),
        ({"groups_train": np.arange(3)}, "client 2: expected groups as client 0 has, False, not True"),
        ({"x_train": np.zeros((3, 2, 2), np.uint8)}, "client 2: expected records"),
    ],
)
def test_files_of_other_forms_or_absent_are_refused(folder: Path, changed: Any, words: str) -> None:
    write(folder, "2", 3, **changed)
    with pytest.raises(DataError, match=words):
        load_parts(run(folder))
    (folder / "1.npz").unlink()
    with pytest.raises(DataError, match=r"client 1: .*/1\.npz: no such file"):
        load_parts(run(folder))


def test_a_name_in_the_ledger_is_that_of_the_clients_own_file(folder: Path) -> None:
    template = client_config(run(folder), 0, folder / "ledger")
    names = [dataset_name(numbered(template, k, 3)) for k in range(2)]
    assert names == [f"npz:{folder}/0.npz", f"npz:{folder}/1.npz"]
    named = dataclasses.replace(template, data_name="wards")
    assert [dataset_name(numbered(named, k, 3)) for k in range(2)] == ["wards, client 0", "wards, client 1"]
    filled = dataclasses.replace(template, data_name="ward {client}")
    assert dataset_name(numbered(filled, 2, 3)) == "ward 2"


def test_other_partitions_and_other_sources_have_no_clients_files() -> None:
    with pytest.raises(ConfigError, match=r"'dirichlet': expected iid .*an entry each of the mapping data"):
        RunConfig(data="npz:{client}.npz", partition="dirichlet")
    with pytest.raises(ConfigError, match="digits takes no argument"):
        check_choices(RunConfig(data="digits:{client}"))


def test_a_path_is_made_absolute_and_a_name_is_filled_in(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(folder)
    config = with_absolute_paths(RunConfig(data="npz:{client}.npz"))
    assert config.data == f"npz:{folder}/{{client}}.npz"
    assert of_client(config, "7").data == f"npz:{folder}/7.npz"
    assert of_client(RunConfig(), "7").data == "digits"
