"""A draft tells nothing of the records but names of columns and what kind they seem to be."""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

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


def test_without_a_label_the_draft_says_how_to_give_one(table: Table) -> None:
    assert '# What is predicted? Give its column kind = "label"' in draft_schema(table, Wishes(), "t.csv")
    assert "What is predicted?" not in draft_schema(table, Wishes(label="ill"), "t.csv")


def draft(path: Path, rows: Iterable[str], **wishes: Any) -> str:
    path.write_text("\n".join(["a;b;y", *rows]) + "\n")
    return draft_schema(read_csv(path, separator=";"), Wishes(label="y", **wishes), "t.csv", ";")


def test_decimal_commas_are_said_and_no_cell_is_shown(tmp_path: Path) -> None:
    text = draft(tmp_path / "t.csv", (f"{i},25;{i};no" for i in range(30, 90)))
    content = tomllib.loads(text)
    assert content["decimal"] == ","
    assert content["columns"]["a"] == {"kind": "number", "range": []}
    assert "30" not in text
    assert "25" not in text


@pytest.mark.parametrize(
    ("rows", "first", "last"),
    [
        (["1,5;2;no", "2,5;3;yes"], [-1.0, -1.0], [1.0, 1.0]),
        ([*(f"{i};1;{i % 2}" for i in range(80)), "k.A.;1;0"], [-1.0, 0.0], [0.0, 1.0]),  # missing
    ],
)
def test_of_public_records_numbers_are_read_with_their_commas_and_marks(
    tmp_path: Path, rows: list[str], first: list[float], last: list[float]
) -> None:
    text = draft(tmp_path / "t.csv", rows, public=True)
    x = encode(read_csv(tmp_path / "t.csv", separator=";"), parse_schema(tomllib.loads(text)), None).x
    assert (x[0, :2].tolist(), x[-1, :2].tolist()) == (first, last)


@pytest.mark.parametrize(("different", "kind"), [(70, "number"), (7, "category")])
def test_a_mark_among_numbers_is_told_and_not_shown(tmp_path: Path, different: int, kind: str) -> None:
    rows = [f"{1000 + i % different};secret;no" for i in range(80)] + ["k.A.;secret;no"]
    text = draft(tmp_path / "t.csv", rows)
    assert '[columns."a"]\n# most cells are numbers: a number, and the others declared by missing' in text
    assert tomllib.loads(text)["columns"]["a"]["kind"] == kind
    assert not any(cell in text for cell in ("k.A.", "secret", "100"))
