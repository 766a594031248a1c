"""The memory of an actor's process: measures what it shares with no other, and keeps freed memory."""

import ctypes
import resource
from collections.abc import Callable
from pathlib import Path

_STATUS = Path("/proc/self/status")  # Linux, proc(5)
_CLEAR, _PEAK = Path("/proc/self/clear_refs"), "5"  # writing "5" there resets the peak

# malloc.h of glibc. M_MMAP_THRESHOLD: blocks of this size or more get their own pages; 32 MiB is the most.
# M_TRIM_THRESHOLD: the heap's free end is returned to the system when it is larger.
_MMAP_THRESHOLD, _TRIM_THRESHOLD = (-3, 32 * 2**20), (-1, 2**30)


def keep_freed_memory() -> None:
    """Keep the memory that a training step frees for the next step, instead of returning it to the system.

    Otherwise a step of 20 small images waits for some 300 new pages: 0.3 ms when another process does the
    same. Without glibc's allocator this does nothing.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for setting in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
            mallopt(*setting)


def own_bytes() -> int:
    """Bytes that this process shares with no other: what one more such process would take.

    Not counted: Ray's store, and the code of libraries (half of what PyTorch takes), which a machine holds
    once for all processes. Without /proc: the most that this process has held, including these.
    """
    if not _STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return _status("RssAnon")


def resident_bytes() -> int:
    """Bytes of this process that are in memory, as `ps` shows them; without /proc, the most so far."""
    if not _STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return _status("VmRSS")


def peak_growth(run: Callable[[], object]) -> int | None:
    """Call `run`; returns by how many bytes the process grew at most meanwhile.

    None if the system cannot tell; then `run` was not called.
    """
    try:
        _CLEAR.write_text(_PEAK)
    except OSError:
        return None
    before = _status("VmRSS")
    run()
    return max(0, _status("VmHWM") - before)


def _status(field: str) -> int:
    lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))
