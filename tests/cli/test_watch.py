"""`fl-dp watch`: exit codes, and that it needs neither torch nor Flower."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fl_dp.cli.common import run_command
from fl_dp.cli.main import app
from fl_dp.launch import following


def test_a_folder_that_is_no_run_is_a_wrong_argument(tmp_path, capsys):
    assert run_command(app, ["watch", str(tmp_path)]) == 2
    assert "holds no run" in capsys.readouterr().err


def test_it_starts_at_once(tmp_path):
    (tmp_path / "config.toml").write_text("rounds = 3\nepsilon = 3.0\n")
    code = (
        "import sys\nfrom fl_dp.cli.common import run_command\nfrom fl_dp.cli.main import app\n"
        "print(run_command(app, ['watch', '--once', sys.argv[1]]))\n"
        "print({'torch', 'flwr', 'ray'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout == "1\nset()\n"
    assert "this run has no process and no result" in ended.stderr


def test_who_no_longer_watches_stops_nothing(tmp_path, monkeypatch, capsys):
    def follow(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(following, "follow", follow)
    (tmp_path / "config.toml").write_text("rounds = 3\n")
    assert run_command(app, ["watch", str(tmp_path)]) == 130
    assert capsys.readouterr().err == "stopped watching; the run itself goes on\n"


def test_files_of_somebody_elses_are_refused_in_words(tmp_path, monkeypatch, capsys):
    (tmp_path / "config.toml").write_text("rounds = 3\n")
    monkeypatch.setattr(following.os, "access", lambda path, mode: Path(path).name != "config.toml")
    assert run_command(app, ["watch", str(tmp_path)]) == 2
    assert "cannot be read; ask its owner" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "server"])
def test_the_first_line_does_not_wait_for_torch_or_flower(tmp_path, command):
    code = (
        "import sys\nfrom fl_dp.cli import main, server\nfrom fl_dp.launch import launcher\n"
        "def stop(config):\n"
        "    print({'torch', 'flwr', 'ray'} & set(sys.modules), flush=True)\n    raise KeyboardInterrupt\n"
        "launcher.check_names = server.check_names = stop\n"
        "sys.argv = ['fl-dp', *sys.argv[1:]]\nmain.main()"
    )
    state = os.environ | {"XDG_STATE_HOME": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", code, command], capture_output=True, text=True, check=False, env=state
    )
    assert ended.stdout == "set()\n"
    assert ended.stderr.splitlines()[0] == "checking the settings; importing PyTorch"
    assert ended.returncode == 130
