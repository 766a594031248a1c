"""`fl-dp keys`, and the configs that `fl-dp new` writes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fl_dp.cli.client_settings import own_settings
from fl_dp.cli.common import run_command
from fl_dp.cli.main import app
from fl_dp.config.all_keys import keys_page
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.launch.request import read_config


def test_all_keys_are_shown_and_one_with_all_that_is_said_of_it(capsys):
    def keys(*words, code=0):
        assert run_command(app, ["keys", *words]) == code
        said = capsys.readouterr()
        return said.err if code else said.out

    out = keys()
    assert all(f"\n{key} " in out for key in RunConfig().to_flat())
    out = keys("weights", "server_optimizer")
    assert 'weights = "declared"\n' in out
    assert "\n  values: declared, uniform, noise\n" in out
    assert "\nserver-optimizer = " in out
    assert keys("--client", "ledger").startswith("ledger\n  SQLite file")
    assert keys("--markdown") == keys_page()
    assert keys("weight", code=2) == "error: weight: unknown key; did you mean weights?\n"
    assert "fl-dp keys --client lists them" in keys("--client", "zzz", code=2)


def test_a_written_file_runs_as_it_stands_and_is_never_overwritten(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_command(app, ["new", "run.toml"]) == 0
    assert "fl-dp check run.toml" in capsys.readouterr().out
    assert read_config(tmp_path / "run.toml") == RunConfig()
    (tmp_path / "run.toml").write_text("mine")
    assert run_command(app, ["new", "run.toml"]) == 2
    assert "is not overwritten; name a new file" in capsys.readouterr().err
    assert (tmp_path / "run.toml").read_text() == "mine"
    assert run_command(app, ["new", "nowhere/run.toml"]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_a_clients_file_asks_for_its_data_and_takes_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert run_command(app, ["new", "--client", "site.toml"]) == 0
    assert "name the data in it" in capsys.readouterr().out
    with pytest.raises(ConfigError, match=r"^data: name this site's records"):
        own_settings(tmp_path / "site.toml", {}, (), None)
    assert own_settings(tmp_path / "site.toml", {"data": "digits"}, (), None).epsilon == 3.0


def test_neither_imports_torch(tmp_path):
    code = (
        "import sys\nfrom fl_dp.cli.common import run_command\nfrom fl_dp.cli.main import app\n"
        "run_command(app, ['keys'])\nrun_command(app, ['new', 'run.toml'])\n"
        "print('imported', sorted({'torch', 'flwr', 'ray'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert result.stdout.endswith("imported []\n")
