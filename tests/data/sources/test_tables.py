"""csv:PATH and its schema file, as a run reads them."""

from pathlib import Path

import pandas as pd
import pytest

from fl_dp.config.data import DataSettings
from fl_dp.config.run import RunConfig
from fl_dp.config.task import TaskSettings
from fl_dp.data.source import data_of, schema_of
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError, DataError
from fl_dp.form import Form
from fl_dp.launch.preflight import check_server, with_absolute_paths
from fl_dp.tasks.identity import identity
from fl_dp.tasks.load import task_of

SCHEMA = """
split = "none"
[columns.a]
kind = "number"
range = [0, 10]
[columns.y]
kind = "label"
classes = ["no", "yes"]
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text("a,y\n0,no\n10,yes\n")
    (tmp_path / "t.schema.toml").write_text(SCHEMA)
    return path


def test_the_schema_beside_the_table_is_read(table: Path) -> None:
    pd.DataFrame({"y": ["no", "yes"], "a": [0, 10.0]}).to_parquet(table.with_name("t.parquet"))
    names = (f"{kind}:{table.with_suffix(f'.{kind}')}" for kind in ("csv", "parquet"))
    data, typed = (data_of(DataSettings(data=name), "train") for name in names)
    assert isinstance(data, TensorData)
    assert data.x.tolist() == typed.x.tolist() == [[-1.0], [1.0]]
    assert data.fingerprint() == typed.fingerprint()
    assert schema_of(TaskSettings(data=f"parquet:{table.with_suffix('.parquet')}")).form == data.form
    with pytest.raises(DataError, match=r't\.csv: its schema says split = "none".*set evaluate = "off"'):
        data_of(DataSettings(data=f"csv:{table}"), "test")


def test_test_records_may_be_a_file_beside_that_of_each_site(table: Path) -> None:
    table.with_name("t.schema.toml").write_text(SCHEMA.replace('"none"', '"file"'))
    name, shared = f"csv:{table}", {"schema": str(table.with_name("t.schema.toml"))}
    assert len(data_of(DataSettings(data=name), "train").y) == 2
    with pytest.raises(DataError, match=r"test\.csv: no such file"):
        data_of(DataSettings(data=name, **shared), "test")
    table.with_name("test.csv").write_text("a,y\n5,yes\n")
    table.with_name("server.csv").write_text("a,y\n5,yes\n")  # with {client}
    for file in (table, table.with_name("server.csv")):
        found = data_of(DataSettings(data=f"csv:{file}", **shared), "test")
        assert (found.x.tolist(), found.y.tolist()) == ([[0.0]], [1])


def test_another_may_be_named(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.toml").write_text(SCHEMA.replace("[0, 10]", "[0, 20]"))
    monkeypatch.chdir(tmp_path)
    data = data_of(DataSettings(data="csv:t.csv", schema=str(tmp_path / "other.toml")), "train")
    assert data.x.tolist() == [[-1.0], [0.0]]
    assert data_of(DataSettings(data="csv:t.csv"), "train").x.tolist() == [[-1.0], [1.0]]
    config = with_absolute_paths(RunConfig(data="csv:t.csv", schema="other.toml"))
    assert config.schema == str(tmp_path / "other.toml")
    assert with_absolute_paths(RunConfig(data="csv:t.csv")).schema == ""


def test_a_schema_that_nobody_reads_is_refused() -> None:
    with pytest.raises(ConfigError, match="data = 'digits' has no schema; leave it empty"):
        data_of(DataSettings(data="digits", schema="some.toml"), "train")
    with pytest.raises(ConfigError, match="has no schema"):
        schema_of(TaskSettings(schema="some.toml"))


def test_a_server_without_records_knows_their_form(table: Path) -> None:
    table.unlink()
    assert schema_of(TaskSettings(data=f"csv:{table}")).form == Form((1,), 2)
    assert schema_of(TaskSettings()) is None
    check_server(RunConfig(data=f"csv:{table}", evaluate="off", model="linear"))
    table.with_name("t.schema.toml").unlink()  # the table is told first
    with pytest.raises(DataError, match=r"t\.csv: no such file") as error:
        data_of(DataSettings(data=f"csv:{table}"), "train")
    assert "fl-dp schema" not in str(error.value)


def test_sites_with_another_encoding_do_not_mean_the_same_task(table: Path, tmp_path: Path) -> None:
    def of(schema: str) -> str:
        path = tmp_path / "named.toml"
        path.write_text(schema)
        return identity(task_of(TaskSettings(data=f"csv:{table}", schema=str(path))))

    first = of(SCHEMA)
    assert len(first) == 16
    assert of(SCHEMA.replace("none", "hash")) == first
    assert of(SCHEMA.replace("[0, 10]", "[0, 20]")) != first


@pytest.mark.parametrize("by", ["schema", "settings"])
def test_another_encoding_is_said_by_the_schema_or_the_settings(table: Path, by: str) -> None:
    table.write_bytes("a,y\n0,größe\n1,no\n".encode("cp1252"))
    schema, reading = SCHEMA.replace('"yes"', '"größe"'), {}
    if by == "schema":
        schema = 'encoding = "cp1252"\n' + schema
    else:
        reading = {"encoding": "cp1252"}
    table.with_name("t.schema.toml").write_text(schema, encoding="utf-8")
    assert data_of(DataSettings(data=f"csv:{table}", **reading), "train").y.tolist() == [1, 0]
