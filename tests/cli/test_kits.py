"""`fl-dp provision`, `join-request`, `accept`: what they print, ask and refuse."""

import json
import shutil
from pathlib import Path

import pytest

from fl_dp.cli import kits as command
from fl_dp.cli.common import run_command
from fl_dp.cli.main import app
from fl_dp.kits.keys import fingerprint
from fl_dp.kits.kit import SiteKit

TOML = 'federation = "hospitals"\naddresses = ["fl.example.org:9092"]\nrequests = ["north.join.json"]\n'


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The key of who has provisioned a federation of one site, here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command.sys.stdin, "isatty", lambda: False, raising=False)
    assert run_command(app, ["join-request", "north", "--kit", "kit"]) == 0
    shutil.copy("kit/north.join.json", ".")
    Path("federation.toml").write_text(TOML)
    assert run_command(app, ["provision", "federation.toml", "--out", "fed"]) == 0
    key: str = json.loads(Path("fed/roster.json").read_text())["roster"]["authority"]
    return key


def test_what_is_made_is_said_with_where_it_goes(authority, capsys):
    assert run_command(app, ["provision", "federation.toml", "--out", "fed"]) == 0
    said = capsys.readouterr().out
    key = json.loads(Path("north.join.json").read_text())["request"]["key"]
    assert "federation hospitals, roster 2" in said
    assert f"  north: {fingerprint(key)}\n" in said  # to be compared with what the site was shown
    assert f"authority {fingerprint(authority)}" in said
    assert "keep offline:    fed/authority" in said
    assert run_command(app, ["join-request", "south", "--kit", "other"]) == 0
    said = capsys.readouterr().out
    key = json.loads(Path("other/south.join.json").read_text())["request"]["key"]
    assert "send to the authority: other/south.join.json" in said
    assert fingerprint(key) in said


def test_without_a_terminal_the_authority_is_named(authority, capsys):
    accept = ["accept", "fed/roster.json", "--kit", "kit"]
    for words, said in (
        (accept, "name the authority that you trust: --authority KEY"),
        ([*accept, "--authority", "0" * 64], "signed by another authority"),
        ([*accept, "--authority", "me"], "expected 64 digits"),
        (["accept", "fed/roster.json", "--kit", "empty"], "makes its own with fl-dp join-request"),
    ):
        assert run_command(app, words) == 2
        assert said in capsys.readouterr().err
    assert not Path("kit/trusted.json").exists()
    assert not Path("empty").exists()
    assert run_command(app, [*accept, "--authority", fingerprint(authority).upper()]) == 0
    assert "this site is north" in capsys.readouterr().out
    assert run_command(app, accept) == 0  # from now on it is known


@pytest.mark.parametrize(("words", "code"), [(["what", "y"], 0), (["", "no"], 2)])
def test_at_a_terminal_it_is_asked(words, code, authority, monkeypatch, capsys):
    answers = iter(words)
    monkeypatch.setattr(command.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda prompt: next(answers))
    assert run_command(app, ["accept", "fed/roster.json", "--kit", "kit"]) == code
    assert f"signed by the authority\n  {fingerprint(authority)}\n" in capsys.readouterr().out
    assert Path("kit/trusted.json").exists() == (code == 0)
    if code == 0:
        assert SiteKit.load(Path("kit")).name == "north"


@pytest.mark.parametrize("name", ["..", "a/b", "", "n\u00f6rd"])
def test_a_site_needs_a_name_that_files_can_have(name, tmp_path):
    assert run_command(app, ["join-request", name, "--kit", str(tmp_path / "kit")]) == 2
    assert not (tmp_path / "kit").exists()


@pytest.mark.parametrize(
    ("command", "there", "words"),
    [
        ("server", "site.key", "this is the kit of a site; to join, use fl-dp client --kit"),
        ("client", "server.key", "this is the kit of the server; to serve, use fl-dp server --kit"),
    ],
)
def test_a_kit_of_the_other_side_is_known(tmp_path, command, there, words, capsys):
    (tmp_path / there).touch()
    assert run_command(app, [command, "--kit", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err
