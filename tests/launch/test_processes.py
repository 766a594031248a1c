"""Clean-up, with children that do what Flower's and Ray's do: leave their session, refuse, outlive."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from launch.commands import is_alive, wait_for

from fl_dp.launch.processes import MARKER, Processes, child_environment, end_launch, tail

# Prints its id into the folder, starts a child in a session of its own, and sleeps.
CHILD = """
import os, pathlib, signal, subprocess, sys, time
folder, depth, stubborn = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "stubborn"
if stubborn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if depth:
    subprocess.Popen([sys.executable, "-c", pathlib.Path(sys.argv[4]).read_text(), str(folder),
                      str(depth - 1), *sys.argv[3:]], start_new_session=True)
(folder / str(os.getpid())).touch()
if sys.argv[3] == "orphan" and depth:
    sys.exit(0)
time.sleep(300)
"""

LAUNCHER = """
import os, pathlib, sys, time
from fl_dp.launch.processes import Processes
folder = pathlib.Path(sys.argv[1])
processes = Processes()
processes.start("child", sys.argv[2:], os.environ, folder.parent / "log")
(folder.parent / "scratch").write_text(str(processes.scratch))
time.sleep(300)
"""


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    folder = tmp_path / "pids"
    folder.mkdir()
    return folder


@pytest.fixture
def command(tmp_path: Path, pids: Path) -> Iterator[Callable[[str], list[str]]]:
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    yield lambda kind: [sys.executable, "-c", CHILD, str(pids), "2", kind, str(script)]
    for pid in alive(pids):  # a failed test must not leave any
        os.kill(pid, signal.SIGKILL)


def alive(folder: Path) -> list[int]:
    """Ids in `folder` of processes that run."""
    return [pid for pid in map(int, (path.name for path in folder.iterdir())) if is_alive(pid)]


@pytest.mark.parametrize("kind", ["polite", "stubborn", "orphan"])
def test_all_descendants_are_gone_afterwards(kind, pids, tmp_path, command):
    with Processes() as processes:
        processes.start("child", command(kind), os.environ, tmp_path / "log")
        wait_for(lambda: len(list(pids.iterdir())) == 3)
    assert alive(pids) == []
    assert not processes.scratch.exists()
    if kind == "polite":  # no zombie of an orphan stays
        wait_for(lambda: not any(Path(f"/proc/{path.name}").exists() for path in pids.iterdir()))


@pytest.mark.parametrize("kind", ["polite", "stubborn"])
def test_a_launcher_that_is_killed_outright_leaves_nothing(kind, pids, tmp_path, command):
    launcher = subprocess.Popen([sys.executable, "-c", LAUNCHER, str(pids), *command(kind)])
    wait_for(lambda: len(list(pids.iterdir())) == 3 and (tmp_path / "scratch").exists())
    launcher.kill()
    launcher.wait()
    wait_for(lambda: alive(pids) == [])
    wait_for(lambda: not Path((tmp_path / "scratch").read_text()).exists())


def test_another_launch_is_left_alone(pids, tmp_path, command):
    with Processes() as first:
        first.start("child", command("polite"), os.environ, tmp_path / "log")
        wait_for(lambda: len(list(pids.iterdir())) == 3)
        with Processes() as second:
            second.start("other", ["sleep", "300"], os.environ, tmp_path / "other")
        assert len(alive(pids)) == 3
        assert first.exit_code("child") is None


def test_exit_codes_and_output_of_processes_with_a_session_each(tmp_path):
    """Ctrl-C reaches the launcher alone, which then ends the others in order."""
    with Processes() as processes:
        three = [sys.executable, "-c", "import os; print(os.getsid(0), os.getpid(), flush=True); os._exit(3)"]
        processes.start("three", three, os.environ, tmp_path / "log")
        processes.start("killed", ["sh", "-c", "echo err >&2; kill -9 $$"], os.environ, tmp_path / "other")
        wait_for(lambda: processes.exit_code("three") == 3)
        wait_for(lambda: processes.exit_code("killed") == -signal.SIGKILL)
    session, pid = (tmp_path / "log").read_text().split()
    assert session == pid
    assert (tmp_path / "other").read_text() == "err\n"


def test_nothing_to_end_is_no_error():
    assert end_launch("a launch that never was") == set()
    assert MARKER not in os.environ


def test_tail_of_a_log(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert tail(path) == "  (no output)"
    path.write_bytes(b"one\n" * 9 + b"two \xff\n" + b"three\n" * 14)
    assert tail(path) == "  two \N{REPLACEMENT CHARACTER}" + "\n  three" * 14


def test_flower_is_quiet_and_keeps_its_state_here_and_what_the_user_has_set_stays(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("NO_PROXY", "example.org")
    monkeypatch.delenv("no_proxy", raising=False)
    wanted = {
        "FLWR_HOME": str(tmp_path),
        "FLWR_TELEMETRY_ENABLED": "0",
        "OMP_NUM_THREADS": "2",
        "NO_PROXY": "example.org,127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }
    assert wanted.items() <= child_environment(tmp_path, threads=2).items()
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert child_environment(tmp_path, threads=8)["OMP_NUM_THREADS"] == "3"
