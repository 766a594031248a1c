"""Records in memory are read as those of a file, by their owner alone, and are gone afterwards."""

import contextlib
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import fl_dp
from fl_dp.api.given import named_data
from fl_dp.config.run import RunConfig
from fl_dp.config.values import key_of
from fl_dp.data.source import data_of
from fl_dp.data.subgroups import Subgroups
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError, DataError, FlDpError
from fl_dp.tasks.load import task_of
from fl_dp.tasks.records import evaluation_records, load_parts

SCHEMA = """
[columns.age]
kind = "number"
range = [18, 90]
[columns.smokes]
kind = "category"
categories = ["True", "False"]
[columns.ward]
kind = "category"
categories = ["a", "b"]
if-missing = "encode"
[columns.ill]
kind = "label"
classes = { no = [0], yes = [1] }
"""
BASE = RunConfig()


def frame_of(records: int = 60, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": random.uniform(18, 90, records),
            "smokes": random.integers(0, 2, records) > 0,
            "ward": random.choice(["a", "b", None], records),
            "ill": random.integers(0, 2, records),
        }
    )


@pytest.fixture
def schema(tmp_path: Path) -> Callable[[str], Path]:
    def write(more: str = "") -> Path:
        file = tmp_path / "people.schema.toml"
        file.write_text(more + SCHEMA)
        return file

    return write


def config(named: dict[str, Any]) -> RunConfig:
    return RunConfig.from_flat({**BASE.to_flat(), **{key_of(name): value for name, value in named.items()}})


def same(one: TensorData | None, other: TensorData | None) -> bool:
    assert one is not None
    assert other is not None
    assert one.digests() == other.digests()  # by which a ledger recognises them
    assert (one.classes, one.groups, one.vocabulary) == (other.classes, other.groups, other.vocabulary)
    return torch.equal(one.x, other.x) and torch.equal(one.y, other.y)


def test_a_frame_is_read_as_its_csv_file(schema: Any, tmp_path: Path) -> None:
    frame = frame_of()
    frame.to_csv(tmp_path / "people.csv", index=False)
    with named_data(frame, None, {"schema": schema()}, BASE) as named:
        for split in ("train", "test"):
            assert same(
                data_of(config(named), split), data_of(RunConfig(data=f"csv:{tmp_path}/people.csv"), split)
            )
    assert named["data_name"] == "frame"


@pytest.mark.parametrize("failure", [None, KeyboardInterrupt])
def test_only_their_owner_can_read_them_and_only_until_the_end(
    schema: Any, failure: type[BaseException] | None
) -> None:
    with (
        contextlib.suppress(KeyboardInterrupt),
        named_data(frame_of(), None, {"schema": schema()}, BASE) as named,
    ):
        folder = Path(named["data"].partition(":")[2]).parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert [one.name for one in folder.iterdir()] == ["records.parquet"]
        if failure:
            raise failure
    assert not folder.exists()


def test_each_client_has_its_own_frame_and_the_server_all_of_its(schema: Any) -> None:
    settings = {"schema": schema('split = "file"\n'), "min_clients": 2, "fit_clients": 2}
    frames = {"north": frame_of(30), "south": frame_of(40, seed=1)}
    with named_data(frames, frame_of(25, seed=2), settings, BASE) as named:
        own = config(named)
        _, parts = load_parts(own)
        test = evaluation_records(own, task_of(own))
    assert own.clients == 2
    assert [len(one) for one in parts] == [30, 40]
    assert test is not None
    assert len(test) == 25
    with named_data(frame_of(30), frame_of(25), settings, BASE) as named:
        assert [len(data_of(config(named), split)) for split in ("train", "test")] == [30, 25]


KINDS: dict[str, TensorData] = {
    "numbers": TensorData(torch.randn(9, 3), torch.arange(9) % 2, ("no", "yes"), groups=tuple("aabbccdde")),
    "images": TensorData(
        torch.randint(0, 256, (9, 3, 8, 6), dtype=torch.uint8), torch.arange(9) % 3, ("a", "b", "c")
    ),
    "tokens": TensorData(torch.randint(0, 5, (9, 4)), torch.randint(0, 5, (9, 4)), tuple("abcde"), 5),
    "targets": TensorData(torch.randn(9, 2, 4), torch.randn(9, 2), ()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_are_read_as_they_are(kind: str) -> None:
    data = KINDS[kind]
    told = Subgroups("sex", ("women", "men"), torch.arange(9) % 2)
    test = TensorData(data.x, data.y, data.classes, data.vocabulary, subgroups=(told,))
    with named_data(data, test, {}, BASE) as named:
        assert same(data_of(config(named), "train"), data)
        found = data_of(config(named), "test")
    assert same(found, test)
    (one,) = found.subgroups
    assert (one.full_names, one.codes.tolist()) == (told.full_names, told.codes.tolist())
    with named_data({"x": data, "y": data}, test, {"min_clients": 2, "fit_clients": 2}, BASE) as named:
        own = config(named)
        assert len(load_parts(own)[0]) == 18
        assert same(evaluation_records(own, task_of(own)), test)
    assert named["data_name"] == "arrays"


ARRAYS = KINDS["numbers"]


@pytest.mark.parametrize(
    ("data", "test", "settings", "words"),
    [
        ("digits", ARRAYS, {}, "test_data: only for data in memory"),
        (ARRAYS, None, {}, "test_data: the server has no test records"),
        ({}, None, {}, "or a mapping with one for each client, .*, not nothing"),
        ([1], None, {}, "not list"),
        ({"a": ARRAYS, "b": frame_of()}, None, {}, "not DataFrame, TensorData"),
        (ARRAYS, frame_of(), {}, "not DataFrame, TensorData"),
        ({"a": ARRAYS}, ARRAYS, {"clients": 3}, "clients = 3: expected 1, the number of parts that data has"),
        (frame_of(), None, {}, "schema: name the public file that declares"),
        ({"a": frame_of()}, None, {"schema": "x"}, "test_data: the server has no test records"),
        (frame_of(), None, {"schema": "absent.toml"}, "absent.toml"),
    ],
)
def test_what_does_not_go_together_is_refused(data: Any, test: Any, settings: dict, words: str) -> None:
    with pytest.raises(FlDpError, match=words), named_data(data, test, settings, BASE):
        pytest.fail("it was written")


def test_test_records_apart_are_those_that_the_schema_says_are(schema: Any) -> None:
    words = 'set split = "file" in it'
    with (
        pytest.raises(ConfigError, match=words),
        named_data(frame_of(), frame_of(), {"schema": schema()}, BASE),
    ):
        pytest.fail("it was written")


@pytest.mark.parametrize(
    "frame", [pd.DataFrame([["secret 7", 3]], columns=["a", "a"]), pd.DataFrame({"a": [3, "secret 7", b"x"]})]
)
def test_what_is_no_table_is_refused_without_its_cells(frame: pd.DataFrame, schema: Any) -> None:
    settings = {"schema": schema()}
    with pytest.raises(DataError, match="expected columns") as error, named_data(frame, None, settings, BASE):
        pytest.fail("it was written")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("of_each", [False, True])
def test_what_is_wrong_with_a_frame_is_said_without_the_file_it_lies_in(of_each: bool, schema: Any) -> None:
    frame = frame_of().drop(columns="ward")
    data = {"north": frame_of(), "south": frame} if of_each else frame
    settings = {"schema": schema('split = "none"\n'), "evaluate": "off"}
    with (
        pytest.raises(DataError, match="there is no column 'ward'") as error,
        named_data(data, None, settings, BASE) as named,
    ):
        load_parts(config(named))
    assert ("data['south']: there" if of_each else "data: there") in str(error.value)
    assert "parquet" not in str(error.value)


def test_with_personal_parameters_the_server_needs_no_records() -> None:
    data = TensorData(torch.randn(3, 2), torch.arange(3) % 2, ("no", "yes"))
    with pytest.raises(ConfigError, match="test_data"), named_data({"a": data}, None, {}, BASE):
        pytest.fail("it was written")
    with named_data({"a": data}, None, {"personal": "0.*"}, BASE) as named:
        assert named["clients"] == 1


def test_what_arrays_do_not_have_is_refused() -> None:
    data = TensorData(torch.randn(3, 2), torch.arange(3) % 2, ("no", "yes"), sites=("a", "b", "c"))
    with pytest.raises(DataError, match="sites cannot be passed in memory"), named_data(data, data, {}, BASE):
        pytest.fail("it was written")


def test_a_torch_data_set_becomes_its_records() -> None:
    x, y = torch.randn(5, 3, dtype=torch.float64), torch.tensor([0, 1, 1, 0, 1])
    of_pairs = [(one, int(label)) for one, label in zip(x, y, strict=True)]
    for data in (torch.utils.data.TensorDataset(x, y), of_pairs):
        found = fl_dp.TensorData.of(data, ("no", "yes"))
        assert same(found, TensorData(x.float(), y, ("no", "yes")))
    numbers = fl_dp.TensorData.of(torch.utils.data.TensorDataset(x, x[:, :2]))
    assert same(numbers, TensorData(x.float(), x[:, :2].float(), ()))
    images = torch.randint(0, 256, (5, 1, 4, 4), dtype=torch.uint8)
    assert fl_dp.TensorData.of(list(zip(images, y, strict=True)), ("no", "yes")).x.dtype == torch.uint8
    for wrong, words in (
        ([], "at least one record"),
        ([x[0]], "each an input and a target"),
        ([(x[0], 0), (x[0][:2], 1)], "tensors of one shape"),
        ([(np.zeros(3), 0)], "tensors of one shape"),
        ([(x[0], 0)], "Expected classes, a name for each label"),
    ):
        with pytest.raises(DataError, match=words):
            fl_dp.TensorData.of(wrong)
