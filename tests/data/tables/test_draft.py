"""A draft tells nothing of the records but names of columns and what kind they seem to be."""

import tomllib
from pathlib import Path

import pytest

from fl_dp.data.tables.draft import Wishes, draft_schema
from fl_dp.data.tables.encode import Table, encode
from fl_dp.data.tables.files import read_csv
from fl_dp.data.tables.parse import parse_schema
from fl_dp.errors import DataError

TEXT = 'age,"a ""b"" c",who,ill\n61,red,u1,yes\n,blue,u2,no\n47.5,red,u1,no\n'


@pytest.fixture
def table(tmp_path: Path) -> Table:
    path = tmp_path / "t.csv"
    path.write_text(TEXT)
    return read_csv(path)


def test_ranges_and_categories_stay_blank(table: Table) -> None:
    text = draft_schema(table, Wishes(label="ill", group="who"), "t.csv")
    assert not any(cell in text for cell in ("61", "47", "red", "blue", "u1", "yes"))
    columns = tomllib.loads(text)["columns"]
    assert columns == {
        "age": {"kind": "number", "range": []},
        'a "b" c': {"kind": "category", "categories": []},
        "who": {"kind": "group"},
        "ill": {"kind": "label", "classes": []},
    }
    with pytest.raises(DataError, match="column 'age': expected range"):
        parse_schema(tomllib.loads(text))


def test_of_public_records_all_is_filled_in_and_said(table: Table) -> None:
    text = draft_schema(table, Wishes(label="ill", group="who", public=True), "t.csv")
    assert text.startswith("# --public: ranges and categories were taken from the records of t.csv")
    assert "published" in text.splitlines()[1]
    schema = parse_schema(tomllib.loads(text))
    data = encode(table, schema, None)
    assert data.x[:, 0].tolist() == [1.0, 0.0, -1.0]
    assert data.x[:, 1].tolist() == [0.0, 1.0, 0.0]
    assert data.classes == ("no", "yes")
    assert data.groups == ("u1", "u2", "u1")


def test_how_the_file_was_read_is_kept(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("1;a\n1;b\n")
    table = read_csv(tmp_path / "t.csv", separator=";", header=False)
    content = tomllib.loads(draft_schema(table, Wishes(label="1", public=True), "t.csv", ";"))
    assert (content["header"], content["separator"]) == (False, ";")
    assert content["columns"]["0"]["range"] == [1.0, 2.0]
    assert len(encode(table, parse_schema(content | {"split": "none"}), None)) == 2


def test_a_column_of_many_texts_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("name\n" + "\n".join(f"n{i}" for i in range(60)) + "\n")
    content = tomllib.loads(draft_schema(read_csv(tmp_path / "t.csv"), Wishes(), "t.csv"))
    assert content["columns"]["name"] == {"kind": "ignore"}
