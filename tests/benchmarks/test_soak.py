"""A soak leaves no process behind, wherever it was started and however it ends."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.soak import __main__ as soak
from benchmarks.soak.machines import Machine, started


def test_what_was_started_is_ended_where_the_server_ends_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)

    def all_started(folder: Path, rounds: int, chance: object, machines: list[Machine]) -> None:
        machines.append(Machine(folder, process))
        sys.exit("the server has ended")

    monkeypatch.setattr(soak, "all_started", all_started)
    monkeypatch.setattr("signal.signal", lambda *handler: None)
    monkeypatch.setattr("sys.argv", ["soak", "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit, match="the server has ended"):
        soak.main()
    assert process.poll() is not None


def test_processes_find_the_checkout_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    process = started("benchmarks.soak.clock", cwd=tmp_path, console=tmp_path / "console.txt")
    assert process.wait(timeout=60) == 0, (tmp_path / "console.txt").read_text()
