"""A machine's wall clock that can be set while its processes run: by libfaketime, where that is there."""

import os
import random
import select
import sys
import time
from dataclasses import dataclass
from pathlib import Path

_PLACES = ("/usr/lib/{}-linux-gnu/faketime/libfaketimeMT.so.1", "/usr/lib64/faketime/libfaketimeMT.so.1")
JUMP = 60  # seconds


def library() -> str | None:
    """The library's path; None where it is not installed (Debian: `apt-get install faketime`)."""
    places = (place.format(os.uname().machine) for place in _PLACES)
    return next((place for place in places if Path(place).exists()), None)


@dataclass
class Clock:
    """file: says how far the clock is off. Processes started with `environment` look at it every second."""

    file: Path
    off: int = 0

    def environment(self) -> dict[str, str]:
        found = library()
        if found is None:
            return {}
        self.set(self.off)
        return {
            "LD_PRELOAD": found,
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def set(self, seconds: int) -> None:
        self.off = seconds
        new = self.file.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.replace(self.file)

    def jump(self, chance: random.Random) -> int:
        """By a minute, or two, forward or backward; how far it is off now."""
        self.set(chance.choice([off for off in (-JUMP, 0, JUMP) if off != self.off]))
        return self.off


def forget(pid: int) -> None:
    """What the library leaves of a process that was killed."""
    for name in ("faketime_shm_", "sem.faketime_sem_"):
        Path(f"/dev/shm/{name}{pid}").unlink(missing_ok=True)


def sleep_by_select() -> None:
    """Before fl_dp is imported: libfaketime 0.9.10 breaks Python's sleep, by a wrong clock_nanosleep."""
    if "FAKETIME_TIMESTAMP_FILE" in os.environ:
        assert "fl_dp" not in sys.modules
        time.sleep = lambda seconds: select.select([], [], [], seconds) and None
