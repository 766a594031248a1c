from collections.abc import Callable
from pathlib import Path

import pytest

SCHEMA = """
missing = ["", "?"]
split = "none"

[columns.age]
kind = "number"
range = [20, 80]
if-missing = "encode"

[columns.pain]
kind = "category"
categories = [1, 2, 3]
if-missing = "encode"

[columns.note]
kind = "ignore"

[columns.ill]
kind = "label"
classes = { no = [0], yes = [1, 2] }
"""

TABLE = "age,pain,note,ill\n20,1,a,0\n80,2.0,b,1\n35,9,c,2\n?,?,d,0\n999,3,e,1\n"


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Writes a table and its schema, and says where the table is."""

    def write(table: str = TABLE, schema: str = SCHEMA, name: str = "people.csv") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(table, encoding="utf-8")
        path.with_suffix(".schema.toml").write_text(schema, encoding="utf-8")
        return path

    return write


@pytest.fixture
def schema_text() -> str:
    return SCHEMA


@pytest.fixture
def table_text() -> str:
    return TABLE
