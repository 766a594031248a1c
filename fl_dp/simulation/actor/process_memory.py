"""How much memory a process has for itself alone."""

import ctypes
import resource
from collections.abc import Callable
from pathlib import Path

_STATUS = Path("/proc/self/status")  # Linux, proc(5)
_CLEAR, _PEAK = Path("/proc/self/clear_refs"), "5"  # lets the peak begin anew

# malloc.h of glibc: from which size on a block has pages of its own, at most 32 MiB, and how much may be
# free at the heap's end before it is given back.
_MMAP_THRESHOLD, _TRIM_THRESHOLD = (-3, 32 * 2**20), (-1, 2**30)


def keep_freed_memory() -> None:
    """Do not give back what a step frees to the system, only to take it again in the next.

    Else a step of 20 small images waits for some 300 new pages, which takes 0.3 ms when another process does
    the same. Without glibc's allocator nothing is changed.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for setting in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
            mallopt(*setting)


def own_bytes() -> int:
    """Memory of this process that it shares with no other: what one more such process would take.

    Without the code of libraries, which a machine holds once however many processes use it (half of what
    PyTorch takes), and without Ray's store. Where there is no /proc: most that it has held, all included.
    """
    if not _STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return _status("RssAnon")


def peak_growth(run: Callable[[], object]) -> int | None:
    """By how much the process grew at most while `run()` ran; None where the system cannot tell, and then
    it was not run.
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
