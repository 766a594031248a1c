"""Starting and seeing, with small programs in the place of Flower's."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fl_dp.errors import LaunchError
from fl_dp.launch.flower.processes import Processes
from fl_dp.launch.flower.starting import (
    _serves,
    ended,
    free_ports,
    start_superlink,
    start_supernodes,
    supernode_options,
)

SERVES = 'echo "Uvicorn running on http://127.0.0.1:$4"; sleep 300'
TAKEN_ONCE = f'if mkdir "$FOLDER/tried"; then echo "[Errno 98] address already in use"; exit 1; fi; {SERVES}'
BREAKS = "echo ValueError: x; exit 7"


@pytest.fixture
def processes() -> Iterator[Processes]:
    with Processes() as processes:
        yield processes


def environment(folder: Path, command: str, script: str) -> dict[str, str]:
    (folder / command).write_text(f"#!/bin/sh\n{script}\n")
    (folder / command).chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "FOLDER": str(folder)}


@pytest.mark.parametrize("script", [SERVES, TAKEN_ONCE])
def test_a_superlink_is_ready_when_its_own_log_says_so(
    script: str, processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = environment(tmp_path, "flower-superlink", script)
    monkeypatch.setenv("PATH", env["PATH"])
    address = start_superlink(processes, env, tmp_path / "log", ["--insecure"], "127.0.0.1", 0)
    assert address.startswith("127.0.0.1:")
    assert processes.exit_code("superlink") is None


def test_a_given_port_that_is_taken_is_an_error(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = environment(tmp_path, "flower-superlink", "echo Address already in use; exit 1")
    monkeypatch.setenv("PATH", env["PATH"])
    with pytest.raises(LaunchError, match=r"127\.0\.0\.1:9092 is taken"):
        start_superlink(processes, env, tmp_path / "log", [], "127.0.0.1", 9092)


def test_a_client_that_dies_on_start_is_seen_with_the_end_of_its_log(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = environment(tmp_path, "flower-supernode", BREAKS)
    monkeypatch.setenv("PATH", env["PATH"])
    with pytest.raises(LaunchError, match=r"(?s)client 0 stopped \(exit code 7\).*log:\n  ValueError: x"):
        start_supernodes(processes, env, {"client 0": tmp_path / "log"}, {"client 0": []})


def test_a_client_whose_port_was_taken_is_started_again(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = environment(tmp_path, "flower-supernode", TAKEN_ONCE)
    monkeypatch.setenv("PATH", env["PATH"])
    names = ["client 0", "client 1"]
    logs = {name: tmp_path / f"{name}.log" for name in names}
    start_supernodes(processes, env, logs, {name: [] for name in names})
    assert all(processes.exit_code(name) is None for name in names)


def test_free_ports_differ() -> None:
    assert len(set(free_ports(20))) == 20


def test_how_a_process_ended_in_words() -> None:
    assert ended(-9) == "stopped (signal 9)"
    assert ended(1) == "stopped (exit code 1)"


def test_a_path_that_flower_cannot_take_is_refused() -> None:
    assert supernode_options(Path("/a b/0.toml"), "h:1")[-1] == "client-config='/a b/0.toml'"
    with pytest.raises(LaunchError, match="single quote"):
        supernode_options(Path("/it's/0.toml"), "h:1")


def test_a_process_that_ends_between_two_looks_had_its_port_taken_all_the_same(tmp_path: Path) -> None:
    """It writes why, and ends only after it was seen running."""
    log = tmp_path / "log"
    log.write_text("[Errno 98] address already in use")
    codes = iter([None, 1, 1, 1])

    class Ends:
        def exit_code(self, name: str) -> int | None:
            return next(codes)

    assert not _serves(Ends(), "superlink", log)  # type: ignore[arg-type]
