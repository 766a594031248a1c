"""Files and names that are not there are known at once, before PyTorch is imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fl_dp.choices import SOURCES
from fl_dp.config.run import RunConfig
from fl_dp.data.source import Source
from fl_dp.errors import DataError
from fl_dp.launch.first_checks import SERVER, check_files, takes_path
from fl_dp.tasks import records


def test_it_is_known_which_sources_take_a_path() -> None:
    for name in SOURCES.built_in():
        is_path = SOURCES.load(f"{name}:x", Source).is_path
        assert takes_path(name) == is_path, f"write is_path=True, word for word, in {SOURCES.module(name)}"
    assert not takes_path("no-such-source")
    assert SERVER == records.SERVER


def test_files_that_are_there_pass_and_each_that_is_not_is_named(tmp_path: Path) -> None:
    (tmp_path / "0.csv").touch()
    data = f"csv:{tmp_path}/{{client}}.csv"
    check_files(RunConfig())
    check_files(RunConfig(data=f"csv:{tmp_path}/0.csv"))
    check_files(RunConfig(data=data), ["0"])
    with pytest.raises(DataError, match=r"^client 1: .*/1\.csv: no such file"):
        check_files(RunConfig(data=data), ["0", "1"])
    with pytest.raises(DataError, match=r"^/.*none\.toml: no such schema file"):
        check_files(RunConfig(data=data, schema="none.toml"), ["0"])
    check_files(RunConfig(data="csv:none.csv", task="own.py"))  # what it reads is the task's own affair


def test_folders_by_names_are_linked_themselves(tmp_path: Path) -> None:
    (tmp_path / "north").mkdir()
    (tmp_path / "north" / "train.csv").touch()
    with pytest.raises(DataError, match=r"such as ln -s north 0\.$"):
        check_files(RunConfig(data=f"csv:{tmp_path}/{{client}}/train.csv"), ["0"])


def test_files_by_names_are_told_what_one_machine_calls_its_clients(tmp_path: Path) -> None:
    config = RunConfig(data=f"csv:{tmp_path}/of-{{client}}.csv")
    for name in ("north", "server", "south", "east", "west"):
        (tmp_path / f"of-{name}.csv").touch()
    words = "called 0, 1, ...; found east, north, south, west: .* ln -s of-east.csv of-0.csv.$"
    with pytest.raises(DataError, match=words):
        check_files(config, ["0"])
    (tmp_path / "of-0.csv").touch()
    for names in (["0", "1"], ["weast"]):
        with pytest.raises(DataError, match=r"client\}\.csv'\.$"):
            check_files(config, names)


NO_FILE = ["--set", "data=csv:none.csv"]
COMMANDS = [
    ["run", *NO_FILE],
    ["check", *NO_FILE],
    ["check", "--server", *NO_FILE],
    ["server", *NO_FILE],
    ["client", "--data", "csv:none.csv"],
]
SAID = """
import sys
from fl_dp.cli.common import run_command
from fl_dp.cli.main import app
for words in {commands}:
    print(run_command(app, words), "torch" in sys.modules, flush=True)
"""


def test_a_missing_file_is_said_before_torch_is_imported(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SAID.format(commands=COMMANDS)],
        cwd=tmp_path,
        env=os.environ | {"XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.splitlines().count("2 False") == len(COMMANDS), ended.stderr
    assert (ended.stdout + ended.stderr).count("none.csv: no such file") == len(COMMANDS)
