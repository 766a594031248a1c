"""Reserves disk space for a run's state and results before sites are asked to pay for a round.

If space or open files run out, the server waits for a while. Otherwise a round that was paid for would be
lost with the run.
"""

import errno
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from fl_dp.errors import LaunchError

Result = TypeVar("Result")

logger = logging.getLogger("fl_dp")

FILE = ".reserve"
WAIT_SECONDS = 600.0
_POLL_SECONDS = 1.0
_SHORT = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE}
_BESIDE = 2**22  # bytes for all but models: a round's line, the summary, the page, logs


class DiskRoom:
    """Holds space by a preallocated file in the run's folder. say: tells the operator what is waited for."""

    def __init__(self, folder: Path, say: Callable[[str], None] = lambda words: None) -> None:
        self._file, self._say = folder / FILE, say
        self._given_up = False

    def hold(self, state: int, model: int) -> None:
        """Reserve space for the next state, two models and the rest; waits until there is enough.

        state: bytes of the last state, which may double when server optimizers begin to keep moments.
        """
        size = 2 * state + 2 * model + _BESIDE
        self.write(lambda: self._take(size), f"{size / 2**20:.0f} MiB that the run's results may need")

    def write(self, work: Callable[[], Result], what: str) -> Result:
        """Call `work`, which writes `what`, and return its result.

        On a full disk, releases the reserved space, then waits for more. LaunchError if there is none within
        WAIT_SECONDS; later calls no longer wait.
        """
        deadline, told = time.monotonic() + WAIT_SECONDS, False
        while True:
            try:
                return work()
            except (OSError, RuntimeError) as error:
                short = _shortage(error)
                if short is None:
                    raise
                if self._file.exists():
                    self.release()
                    continue
                if self._given_up or time.monotonic() > deadline:
                    self._given_up = True
                    raise LaunchError(
                        f"{self._file.parent}: no room for {what}: {short}. Make room, and go on "
                        "with --resume: the run stands as after its last round."
                    ) from None
                if not told:
                    told, words = True, f"{self._file.parent}: waiting for room for {what}: {short}"
                    logger.warning("%s", words)
                    self._say(words)
                time.sleep(_POLL_SECONDS)

    def release(self) -> None:
        self._file.unlink(missing_ok=True)

    def _take(self, size: int) -> None:
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            if os.fstat(descriptor).st_size < size:
                os.posix_fallocate(descriptor, 0, size)
        except OSError:
            self.release()  # a partial reservation is useless, and others may need the space
            raise
        finally:
            os.close(descriptor)


def _shortage(error: BaseException) -> str | None:
    """What ran out; None for another error. torch wraps the OSError in an error of its own."""
    cause = error if isinstance(error, OSError) else error.__context__
    if isinstance(cause, OSError) and cause.errno in _SHORT:
        return os.strerror(cause.errno)
    return None
