"""A schema file that is not complete, or not understood, is refused by column and key."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fl_dp.data.tables.columns import Category, Column, Label, Number
from fl_dp.data.tables.parse import read_schema
from fl_dp.data.tables.schema import Schema
from fl_dp.errors import DataError
from fl_dp.form import Form

Read = Callable[[str], Schema]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def reading(text: str) -> Schema:
        path = tmp_path / "people.schema.toml"
        path.write_text(text, encoding="utf-8")
        return read_schema(path)

    return reading


def test_a_whole_schema(read: Read, schema_text: str) -> None:
    schema = read(schema_text)
    assert schema.columns == (
        Number(name="age", missing=("", "?"), if_missing="encode", low=20.0, high=80.0),
        Category(name="pain", missing=("", "?"), if_missing="encode", categories=(1, 2, 3)),
        Column(name="note", missing=("", "?")),
        Label(name="ill", missing=("", "?"), classes=("no", "yes"), values=((0,), (1, 2))),
    )
    assert (schema.header, schema.separator, schema.split) == (True, ",", "none")
    assert schema.form == Form((7,), 2)
    assert schema.inputs == (
        "age",
        "age missing",
        "pain = 1",
        "pain = 2",
        "pain = 3",
        "pain = other",
        "pain = missing",
    )


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("range = [20, 80]", "range = []", r"column 'age': expected range = \[LOW, HIGH\], two public"),
        ("range = [20, 80]", "range = [80, 20]", "column 'age': expected range"),
        ("range = [20, 80]", "", "column 'age': expected range"),
        ("range = [20, 80]", "points = [1, 5, 5]", r"column 'age': expected points = \[LOW, ..., HIGH\]"),
        ("range = [20, 80]", "points = [1]", "column 'age': expected points"),
        ("range = [20, 80]", "range = [1, 5]\npoints = [1, 5]", "'age': expected range or points, not"),
        ("range = [20, 80]", "rang = [20, 80]", "column 'age': unknown key 'rang'; known are bands,"),
        ("categories = [1, 2, 3]", "categories = []", "column 'pain': expected categories"),
        (
            "categories = [1, 2, 3]",
            "categories = [true]",
            "'pain': categories: expected a list of strings and",
        ),
        ("categories = [1, 2, 3]", "categories = [1]\nbaseline = 2", "'pain': expected baseline to be"),
        ("categories = [1, 2, 3]", "categories = [1]\nother = 0", "'pain': expected other to be true"),
        ('kind = "ignore"', "", "column 'note': expected a kind, one of number, category, label,"),
        ('kind = "ignore"', 'kind = "label"\nclasses = [0, 1, 2]', "column 'note': with several labels"),
        ('kind = "ignore"', 'kind = "target"\nrange = [0, 1]', "expected either columns"),
        (
            'kind = "label"\nclasses = { no = [0], yes = [1, 2] }',
            'kind = "ignore"',
            "expected either columns",
        ),
        ("yes = [1, 2]", "yes = [1, 0]", "column 'ill': a value appears twice"),
        ("yes = [1, 2]", "yes = []", "column 'ill': expected at least two classes"),
        ('if-missing = "encode"', 'if-missing = "guess"', "'age': expected if-missing to be one of refuse"),
        ('split = "none"', 'split = "half"', "split = 'half': expected 'hash', 'none' or 'file'"),
        ('split = "none"', 'separator = ", "', "separator = ', ': expected one character"),
        ('split = "none"', 'decimal = ";"', r"decimal = ';': expected '\.' or ','"),
        ('split = "none"', 'encoding = "utf-16"', "encoding = 'utf-16': expected 'utf-8' or 'latin-1' or"),
        ('split = "none"', "unknown = 1", "the schema: unknown key 'unknown'"),
        ('split = "none"', "header = 1", "expected header to be true or false"),
        ('missing = ["", "?"]', 'missing = "?"', "missing: expected a list"),
        ("[columns.age]", "[columns.age", "not a readable TOML file"),
    ],
)
def test_what_is_not_complete_is_refused_by_name(
    read: Read, schema_text: str, old: str, new: str, words: str
) -> None:
    assert old in schema_text
    with pytest.raises(DataError, match=rf"people\.schema\.toml: .*{words}"):
        read(schema_text.replace(old, new, 1))


def test_a_schema_of_no_use_is_refused(read: Read, schema_text: str, tmp_path: Path) -> None:
    def twice(said: str) -> str:
        return schema_text + "".join(f"\n[columns.{name}]\n{said}\n" for name in "ab")

    for text, words in (
        ("header = true", r"expected a part \[columns\.NAME\] for every column"),
        ('[columns.y]\nkind = "label"\nclasses = [0, 1]', "there is no input"),
        (twice('kind = "group"'), "expected one column of kind 'group' at most"),
        (twice('kind = "split"\ntrain = [1]\ntest = [2]'), "expected one column of kind 'split' at most"),
    ):
        with pytest.raises(DataError, match=words):
            read(text)
    with pytest.raises(DataError, match=r"no such schema file. `fl-dp schema FILE` drafts one; the setting"):
        read_schema(tmp_path / "none.toml")


def test_how_the_file_is_read_is_no_part_of_the_meaning(read: Read, schema_text: str) -> None:
    meaning = read(schema_text).meaning
    assert read("separator = ';'\ndecimal = ','\n" + schema_text.replace("none", "hash")).meaning == meaning
    assert read(schema_text + '\n[columns.user]\nkind = "group"').meaning == meaning
    assert read(schema_text.replace("[20, 80]", "[20, 81]")).meaning != meaning
    assert read(schema_text.replace("yes = [1, 2]", "yes = [1]")).meaning != meaning


def test_all_columns_with_blanks_are_named_at_once(read: Read, schema_text: str) -> None:
    blank = schema_text.replace("[20, 80]", "[]").replace("categories = [1, 2, 3]", "categories = []")
    with pytest.raises(DataError, match=r"'age': expected range .* Also wrong or blank: 'pain'\."):
        read(blank)
