"""The processes of one launch: each in its own session, all stopped when the launch ends.

Runs as `python -m fl_dp.launch.processes LAUNCH_ID SCRATCH`, the guard, which ends them if the
launcher is killed before it can. The launcher holds the other end of its standard input, which closes however
the launcher ends. The guard then ends what is left of the launch and deletes its scratch folder.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from fl_dp.durable_files import open_private

MARKER = "FL_DP_LAUNCH_ID"
GRACE_SECONDS = 2.0
KILL_SECONDS = 2.0
_POLL_SECONDS = 0.05
_TAIL_LINES = 15
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h

Identity = tuple[int, int]  # process id, start time in clock ticks: a pair that is never used again


class Processes:
    """Starts processes, knows which have ended, and ends all of them and their descendants.

    A descendant may leave its session, as clients and Ray do. It is found by a marker in the environment that
    it inherits. If this process is killed outright, a guard process does the same in its place.

    scratch: a folder with a short path, for sockets: their paths are limited to 107 characters, and a run's
    own folder may be longer. It is deleted with the processes.
    """

    def __init__(self) -> None:
        self.launch_id = uuid.uuid4().hex
        _adopt_orphans()
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self.scratch = Path(tempfile.mkdtemp(prefix="fl-dp-"))
        self._guard = subprocess.Popen(
            [sys.executable, "-P", "-m", "fl_dp.launch.processes", self.launch_id, str(self.scratch)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, name: str, command: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        """Run `command` as `name` in a new session with its output in `log`; an earlier `name` has ended."""
        with open_private(log) as output:  # a traceback may quote data
            self._started[name] = subprocess.Popen(
                command,
                env={**env, MARKER: self.launch_id},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def exit_code(self, name: str) -> int | None:
        """The exit code of process `name`; None while it runs, -N if signal N ended it."""
        return self._started[name].poll()

    def stop(self) -> None:
        """End every process of this launch: SIGTERM, then SIGKILL after GRACE_SECONDS."""
        ended = end_launch(self.launch_id)
        for process in self._started.values():
            process.kill()  # without /proc, these are the only known ones
            process.wait()
        _reap(ended)
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        self._guard.wait()


def end_launch(launch_id: str) -> set[Identity]:
    """End all processes that carry the marker `launch_id`, and their descendants; returns them."""
    seen: set[Identity] = set()
    for sent, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
        signalled: set[Identity] = set()
        deadline = time.monotonic() + seconds
        # Remember each process once seen: an orphan may overwrite its environment and the marker with it.
        while alive := (_living(launch_id, seen)):
            seen |= alive
            for identity in alive - signalled:
                _send(identity, sent)
            signalled |= alive
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL_SECONDS)
    return seen


def _adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends first.

    In a container the first process often does not reap orphans, which would stay in the process table for
    ever.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _reap(ended: set[Identity]) -> None:
    """Remove adopted orphans that have ended from the process table."""
    for pid, _ in ended:
        with suppress(ChildProcessError):  # not our child: its own parent reaps it
            os.waitpid(pid, os.WNOHANG)


def _send(identity: Identity, sent: signal.Signals) -> None:
    try:
        os.kill(identity[0], sent)
    except ProcessLookupError:
        return  # it ended by itself before the signal reached it


def _living(launch_id: str, known: set[Identity]) -> set[Identity]:
    """Living processes that are in `known` or carry the marker, and the descendants of these."""
    parents = _process_table()
    wanted = f"{MARKER}={launch_id}".encode()
    found = {one for one in parents if one in known or wanted in _environment(one[0])}
    while True:
        pids = {pid for pid, _ in found}
        children = {one for one, parent in parents.items() if parent in pids} - found
        if not children:
            return found
        found |= children


def _process_table() -> dict[Identity, int]:
    """Parent id of every living process on this machine, zombies left out; empty without /proc."""
    table: dict[Identity, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # The name, in parentheses, may itself contain spaces and parentheses; see proc_pid_stat(5).
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while the table was read
        state, parent, start = fields[0], int(fields[1]), int(fields[19])
        if state not in "ZX":
            table[int(entry.name), start] = parent
    return table


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []  # ended, or another user's: not ours


def ended(code: int) -> str:
    return f"stopped (signal {-code})" if code < 0 else f"stopped (exit code {code})"


def tail(path: Path) -> str:
    if not path.exists():
        return "  (no output)"
    last = path.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:]
    return "\n".join(f"  {line}" for line in last) or "  (no output)"


def _guard() -> None:
    launch_id, scratch = sys.argv[1:]
    sys.stdin.buffer.read()
    end_launch(launch_id)
    shutil.rmtree(scratch)


if __name__ == "__main__":
    _guard()


_LOOPBACK = "127.0.0.1,localhost"

_QUIET = {
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_TELEMETRY_ENABLED": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "PYTHONUNBUFFERED": "1",  # so that a log ends with the last event, also after SIGKILL
}

# Waiting threads sleep: when they spin, two clients on one machine take ten times as long.
_SHARED = {"OMP_WAIT_POLICY": "PASSIVE"}


def child_environment(flower_home: Path, *, threads: int) -> dict[str, str]:
    """This process's environment, changed for one that uses Flower.

    flower_home: folder for Flower's state, instead of ~/.flwr. threads: how many the numerical libraries may
    start, unless the environment says so already.
    """
    return {
        **thread_settings(threads),
        **_SHARED,
        **os.environ,
        **without_proxy(),
        **_QUIET,
        "FLWR_HOME": str(flower_home),
    }


def thread_settings(threads: int) -> dict[str, str]:
    """Settings that limit each numerical library to `threads` threads."""
    return {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}


def without_proxy() -> dict[str, str]:
    """Settings that keep requests to this machine away from an HTTP proxy."""
    settings = {}
    for name in ("NO_PROXY", "no_proxy"):
        present = os.environ.get(name)
        settings[name] = f"{present},{_LOOPBACK}" if present else _LOOPBACK
    return settings


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
