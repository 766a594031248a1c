from pathlib import Path

import pandas as pd
import pytest

from fl_dp.data.tables.encode import Table, encode, record_digests
from fl_dp.data.tables.files import read_csv, read_parquet
from fl_dp.data.tables.parse import parse_schema
from fl_dp.errors import DataError

AGES = parse_schema(
    {
        "split": "none",
        "columns": {
            "age": {"kind": "number", "range": [0, 90]},
            "ill": {"kind": "label", "classes": ["no", "yes"]},
        },
    }
)


def rows(table: Table) -> list[tuple[str, ...]]:
    return list(zip(*table.columns, strict=True))


def test_cells_are_texts_without_spaces_around_them(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('\ufeffa, b\n"x, y", 1 \n\n ,NA\n', encoding="utf-8")
    table = read_csv(path)
    assert (table.names, table.named) == (("a", "b"), True)
    assert rows(table) == [("x, y", "1"), ("", "NA")]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            b"a,b\nsecret,2\nsecret\n",
            r"line 3 \(empty ones not counted\) does not have the first line's 2 cells",
        ),
        (b"a,b\nsecret,2,3\n", 'line 2 .*Another separator\\? Set separator = ";" in the schema'),
        (b"a,b\n", "there are no records"),
        (b"", "there are no records"),
        (b'a,b\n"secret,2\n', r"expected a readable CSV .*quotes must .*--separator .* another table"),
        (b"a,b\nsecret\xff,2\n", r'not all of it is utf-8; try .*"cp1252".* --encoding to fl-dp'),
    ],
)
def test_damaged_files_are_named_and_not_quoted(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"t\.csv: {words}") as error:
        read_csv(path)
    assert "secret" not in str(error.value)


def test_a_record_is_the_same_in_any_encoding(tmp_path: Path) -> None:
    """What it has spent goes by its letters, and not by how they are written."""
    path, tables = tmp_path / "t.csv", []
    for encoding in ("utf-8", "latin-1", "cp1252"):
        path.write_bytes("straße;a\nKöln;1\n".encode(encoding))
        tables.append(read_csv(path, separator=";", encoding=encoding))
    assert rows(tables[2]) == [("Köln", "1")]
    digests = [record_digests(dict(zip(one.names, one.columns, strict=True))) for one in tables]
    assert digests[0] == digests[1] == digests[2]


@pytest.mark.parametrize(
    ("written", "read", "words"),
    [
        ("utf-8", "cp1252", r't\.csv: is UTF-8, not cp1252; set encoding = "utf-8"'),
        ("utf-8", "latin-1", "is UTF-8, not latin-1"),
        ("cp1252", "latin-1", 'not letters in latin-1; set encoding = "cp1252"'),
        ("cp1252", "utf-8", "not all of it is utf-8"),
    ],
)
def test_a_file_has_one_encoding_alone(tmp_path: Path, written: str, read: str, words: str) -> None:
    """Read in another one its records would look like others, that have spent nothing."""
    path = tmp_path / "t.csv"
    path.write_bytes("a,b\nKöln,5 €\n".encode(written))
    with pytest.raises(DataError, match=words) as error:
        read_csv(path, encoding=read)
    assert "Köln" not in str(error.value)
    assert rows(read_csv(path, encoding=written)) == [("Köln", "5 €")]


def test_parquet_has_the_same_records_as_csv(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"n": [1, 2], "f": [0.1, None], "s": ["x", None], "c": pd.Categorical(["u", "v"]), "b": [True, False]}
    )
    frame.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("b,n,f,s,c\ntrue,1,0.10,x,u\nfalse,2.0,,,v\n")
    typed, texts = read_parquet(tmp_path / "t.parquet"), read_csv(tmp_path / "t.csv")
    assert rows(typed) == [("1", "0.1", "x", "u", "true"), ("2", "", "", "v", "false")]
    digests = [record_digests(dict(zip(one.names, one.columns, strict=True))) for one in (typed, texts)]
    assert digests[0] == digests[1]


def test_parquet_with_lists_or_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pd.DataFrame({"a": [1], "b": [[1, 2]]}).to_parquet(path)
    with pytest.raises(DataError, match=r"t\.parquet: column 2 holds list.*; expected texts, numbers"):
        read_parquet(path)
    pd.DataFrame({"a": []}).to_parquet(path)
    with pytest.raises(DataError, match="there are no records"):
        read_parquet(path)
    path.write_bytes(b"text")
    with pytest.raises(DataError, match=r"expected a readable Parquet file \(ArrowInvalid\)"):
        read_parquet(path)
    path.unlink()
    for reading, words in ((read_csv, "expected a CSV file"), (read_parquet, "expected a Parquet file")):
        with pytest.raises(DataError, match=rf"t\.parquet: no such file; {words}"):
            reading(path)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_utf_16_is_named_and_the_advice_helps(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("age\till\n50\tnö\n".encode(encoding))
    for tried in ("utf-8", "latin-1", "cp1252"):
        with pytest.raises(DataError, match=r"is UTF-16\. Save it as UTF-8: .*iconv .*separator = "):
            read_csv(path, encoding=tried)
    path.write_bytes(path.read_bytes().decode(encoding).encode())  # as iconv does
    assert rows(read_csv(path, separator="\t")) == [("50", "nö")]


@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize("line", ["sep=;\r\n", '"SEP=;"\n'])
def test_excels_first_line_is_named_and_the_advice_helps(tmp_path: Path, line: str, separator: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"\ufeff{line}age;ill\n50;no\n", encoding="utf-8")
    with pytest.raises(DataError, match=r'note to Excel\. Delete it, and set separator = ";"'):
        read_csv(path, separator=separator)
    path.write_text("".join(path.read_text(encoding="utf-8-sig").splitlines(True)[1:]))
    assert rows(read_csv(path, separator=";")) == [("50", "no")]


@pytest.mark.parametrize("comment", ["# exported", '# by "X", v2', "# of 2026, by X"])
def test_a_comment_is_named_and_the_advice_helps(tmp_path: Path, comment: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{comment}\nage,ill\n50,no\n40,yes\n")
    with pytest.raises(DataError, match='first line, which begins with "#", is a comment') as error:
        encode(read_csv(path), AGES, None)
    assert "separator =" not in str(error.value)
