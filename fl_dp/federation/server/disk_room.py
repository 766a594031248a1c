"""Room on the server's disk for a run's state and results, taken before sites are asked to pay for a round.

What the machine has too little of for a while, space or open files, is waited for: a round that was paid for
would be lost with the run.
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
    """A file of no content in the run's folder. say: tells the operator what is waited for."""

    def __init__(self, folder: Path, say: Callable[[str], None] = lambda words: None) -> None:
        self._file, self._say = folder / FILE, say
        self._given_up = False

    def hold(self, state: int, model: int) -> None:
        """Take room for the next state, two models and the rest, and wait until it is there.

        state: bytes of the last state; it may double when server optimizers begin to remember.
        """
        size = 2 * state + 2 * model + _BESIDE
        self.write(lambda: self._take(size), f"{size / 2**20:.0f} MiB that the run's results may need")

    def write(self, work: Callable[[], Result], what: str) -> Result:
        """Do `work`, which writes `what`; on a full disk in the room that is held, or once there is some.

        Returns what `work` returns. LaunchError when there is none for WAIT_SECONDS; afterwards nothing is
        waited for any more.
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
            self.release()  # a part of it is of no use, and others may need that
            raise
        finally:
            os.close(descriptor)


def _shortage(error: BaseException) -> str | None:
    """What there is too little of; None for another error. torch hides it behind an error of its own."""
    cause = error if isinstance(error, OSError) else error.__context__
    if isinstance(cause, OSError) and cause.errno in _SHORT:
        return os.strerror(cause.errno)
    return None
