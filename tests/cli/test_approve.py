"""`fl-dp approve`: what waits is shown, and answered by its id."""

import json
import shutil
from pathlib import Path

import pytest

from fl_dp.cli import approve as command
from fl_dp.cli.common import run_command
from fl_dp.cli.main import app
from fl_dp.federation.client.approval import FOLDER, pending


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / FOLDER
    folder.mkdir()
    for name in ("aa", "bb"):
        (folder / f"{name}.json").write_text(json.dumps({"words": [f"run {name} asks", "cost: epsilon 1"]}))
    return folder


def test_what_waits_is_shown_and_answered(folder, capsys, monkeypatch):
    def approve(*words):
        code = run_command(app, ["approve", str(folder), *words])
        return code, capsys.readouterr()

    of_a_ledger = folder.parent / "beside" / FOLDER  # a ledger's folder of the same name
    shutil.copytree(folder, of_a_ledger / FOLDER)
    monkeypatch.chdir(folder)
    for ledger in (folder.parent, of_a_ledger, "."):
        run_command(app, ["approve", str(ledger)])
        assert "[aa]\n  run aa asks\n" in capsys.readouterr().out

    assert "[aa]\n  run aa asks\n  cost: epsilon 1\n" in approve()[1].out
    code, said = approve("cc")
    assert (code, "cc: no question in" in said.err and "give the whole id" in said.err) == (2, True)
    assert approve(f"../{FOLDER}/aa")[0] == 2
    assert approve("aa")[1].out == "yes: run aa asks\n"
    assert approve("bb", "--no")[1].out == "no: run bb asks\n"
    assert [(folder / f"{name}.answer").read_text() for name in ("aa", "bb")] == ["yes", "no"]
    code, said = approve()
    assert (code, said.out) == (0, "no open questions\n")
    assert run_command(app, ["approve", str(folder / "none")]) == 2


def test_the_console_asks_until_it_is_a_word_it_knows(folder, monkeypatch, capsys):
    words = iter(["maybe", "y", "no"])
    monkeypatch.setattr(command.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda prompt: next(words))
    command.ask_on_console(folder, set())
    assert pending(folder) == []
    answers = sorted((folder / f"{name}.answer").read_text() for name in ("aa", "bb"))
    assert answers == ["no", "yes"]


def test_without_a_console_it_says_how_once(folder, monkeypatch, capsys):
    monkeypatch.setattr(command.sys.stdin, "isatty", lambda: False, raising=False)
    told: set[str] = set()
    command.ask_on_console(folder, told)
    command.ask_on_console(folder, told)
    assert capsys.readouterr().out.count("answer with: fl-dp approve") == 2
    assert len(pending(folder)) == 2
