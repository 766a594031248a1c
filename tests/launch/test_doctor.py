"""What is wrong with an environment is named, with what to do, and nothing else makes the command fail."""

import re
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from pathlib import Path
from types import SimpleNamespace

import pytest

from fl_dp.accounting.ledger.files import LEDGER
from fl_dp.cli.common import run_command
from fl_dp.cli.main import app
from fl_dp.launch import doctor
from fl_dp.launch.exit_codes import ExitCode


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(doctor, "lasting_ledger", lambda: tmp_path)
    return tmp_path


def have(monkeypatch, **versions):
    """These packages, by import name, in these versions; None: not there."""

    def version(name):
        number = versions.get(name.replace("-", "_"), installed(name))
        if number is None:
            raise PackageNotFoundError(name)
        return number

    monkeypatch.setattr(doctor, "version", version)


def test_where_all_is_well_it_says_so(capsys):
    assert run_command(app, ["doctor"]) == ExitCode.TRAINED
    out = capsys.readouterr().out
    assert f"torch {installed('torch')}" in out
    assert out.endswith("nothing is wrong\n")


def test_an_extra_that_is_not_there_is_named_and_nothing_is_wrong(monkeypatch, capsys):
    have(monkeypatch, kymatio=None)
    assert run_command(app, ["doctor"]) == ExitCode.TRAINED
    assert re.search(r"extra vision +without kymatio\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("versions", "words"),
    [
        ({"scipy": None}, "scipy is missing, expected >=1.13"),
        ({"torch": "2.13.0"}, "torch is 2.13.0, expected !=2.13.0,>=2.11"),
        ({"flwr": "1.42.0"}, "flwr is 1.42.0, expected ==1.41.0"),
    ],
)
def test_a_package_of_another_version_is_wrong(monkeypatch, capsys, versions, words):
    have(monkeypatch, **versions)
    assert run_command(app, ["doctor"]) == ExitCode.FAILED
    assert f"wrong: packages: {words}; install fl_dp anew" in capsys.readouterr().out


def test_a_ledger_that_others_can_open_is_wrong_and_is_not_read(state, capsys):
    (state / LEDGER).write_text("no ledger at all: hospital-7")
    (state / LEDGER).chmod(0o640)
    assert run_command(app, ["doctor"]) == ExitCode.FAILED
    out = capsys.readouterr().out
    assert "wrong: ledger: others than its owner can open it: chmod 600" in out
    assert "hospital" not in out


def test_too_little_room_is_wrong(monkeypatch, capsys):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: SimpleNamespace(free=2**30))
    assert run_command(app, ["doctor"]) == ExitCode.FAILED
    assert "wrong: disk: make room" in capsys.readouterr().out
