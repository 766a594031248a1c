"""fl-dp schema: a file to go over, and never one that is written over."""

import tomllib
from pathlib import Path

import pytest

from fl_dp.cli.common import run_command
from fl_dp.cli.main import app


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text("age,ill\n61,yes\n47,no\n")
    return path


def test_a_draft_is_written_beside_the_table(table, capsys):
    assert run_command(app, ["schema", str(table), "--label", "ill"]) == 0
    draft = table.with_name("t.schema.toml").read_text()
    assert tomllib.loads(draft)["columns"]["age"] == {"kind": "number", "range": []}
    assert "fill in ranges" in capsys.readouterr().out
    assert run_command(app, ["schema", str(table)]) == 2
    assert "already exists and is not overwritten" in capsys.readouterr().err
    assert table.with_name("t.schema.toml").read_text() == draft


def test_a_public_one_is_complete_and_says_so(table, capsys):
    out = table.with_name("own.toml")
    assert run_command(app, ["schema", str(table), "--label", "ill", "--public", "--out", str(out)]) == 0
    content = tomllib.loads(out.read_text())
    assert content["columns"]["age"]["range"] == [47.0, 61.0]
    assert content["columns"]["ill"]["classes"] == ["no", "yes"]
    assert "whoever gets the file knows them" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--label", "sick"], "t.csv has no column of that name; its first line has 2 names"),
        (["--group", "me"], "--group me: "),
        (["--separator", ";;"], "--separator ';;': expected one character"),
        (["--separator", ";"], "each line has only one cell with --separator ';'; name the separator"),
        (["--encoding", "utf-16"], "--encoding 'utf-16': expected utf-8 or latin-1 or cp1252"),
        (["--out", "/nowhere/t.toml"], "/nowhere/t.toml: cannot be written: No such file or directory"),
    ],
)
def test_wrong_options_are_refused(table, options, words, capsys):
    assert run_command(app, ["schema", str(table), *options]) == 2
    assert words in capsys.readouterr().err
    assert not table.with_name("t.schema.toml").exists()


def test_without_a_header_columns_have_numbers_and_parquet_is_read_too(table, tmp_path):
    import pandas as pd

    assert run_command(app, ["schema", str(table), "--no-header"]) == 0
    assert list(tomllib.loads(table.with_name("t.schema.toml").read_text())["columns"]) == ["0", "1"]
    pd.DataFrame({"a": [1, 2]}).to_parquet(tmp_path / "p.parquet")
    assert run_command(app, ["schema", str(tmp_path / "p.parquet")]) == 0
    assert list(tomllib.loads((tmp_path / "p.schema.toml").read_text())["columns"]) == ["a"]


def test_a_table_of_another_encoding_is_read_and_the_draft_says_so(tmp_path, capsys):
    path = tmp_path / "t.csv"
    path.write_bytes("größe;ill\n1;ja\n2;nein\n".encode("cp1252"))
    words = ["schema", str(path), "--separator", ";"]
    assert run_command(app, words) == 2
    assert "--encoding to fl-dp schema" in capsys.readouterr().err
    assert run_command(app, [*words, "--encoding", "cp1252"]) == 0
    draft = tomllib.loads(path.with_name("t.schema.toml").read_text(encoding="utf-8"))
    assert draft["encoding"] == "cp1252"
    assert list(draft["columns"]) == ["größe", "ill"]
