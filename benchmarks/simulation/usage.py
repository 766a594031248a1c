"""Who used the cores: CPU seconds of a command's processes and of the whole machine, from /proc (Linux)."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MARK = "FL_DP_BENCHMARK"  # in the environment of a command, and so of all that it starts

_TICK = os.sysconf("SC_CLK_TCK")  # a second, in the unit of /proc


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds so far: of the processes that train, of all of the command's, of the whole machine."""

    training: float
    command: float
    machine: float


def usage(mark: str, trains: Callable[[str], bool]) -> Usage:
    """Now. trains: whether a process of this title is one that trains clients."""
    seconds = {pid: _seconds(pid) for pid in members(mark)}
    training = sum(spent for pid, spent in seconds.items() if trains(_read(pid, "cmdline")))
    return Usage(training, sum(seconds.values()), _machine())


def members(mark: str) -> set[int]:
    """The processes with `mark` in their environment, and all below them.

    Ray's workers write their titles over their environment: their parents tell whose they are.
    """
    parents = {pid: _parent(pid) for pid in _processes()}
    found = {pid for pid in parents if f"{MARK}={mark}\0" in _read(pid, "environ")}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _processes() -> Iterator[int]:
    return (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())


def _read(pid: int, file: str) -> str:
    """A file of a process, empty when it has ended or is not ours."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/{file}").read_text(encoding="utf-8", errors="replace")
    return ""


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on (proc(5)): the second may hold blanks."""
    return _read(pid, "stat").rpartition(")")[2].split()


def _parent(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def _seconds(pid: int) -> float:
    """User and system time, with that of children which have ended."""
    fields = _stat(pid)
    return sum(map(int, fields[11:15])) / _TICK if fields else 0.0


def _machine() -> float:
    """User, nice, system, interrupts and what a hypervisor took; not idle, not waiting for a disk."""
    fields = [
        int(word) for word in Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:]
    ]
    user, nice, system, _, _, irq, softirq, steal = fields[:8]
    return (user + nice + system + irq + softirq + steal) / _TICK
