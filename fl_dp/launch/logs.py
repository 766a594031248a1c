"""The logs of a server and of clients; readable by their owner alone, and bounded."""

import io
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path

from fl_dp.durable_files import open_private
from fl_dp.errors import FlDpError, TaskError

_FORMAT = "%(asctime)s %(levelname)s %(message)s"
MOST_BYTES = 8 * 2**20  # of a log, and of each older one beside it
_OLDER = 2  # NAME.log.1 and NAME.log.2


class OwnersLog(RotatingFileHandler):
    """A log file for its owner alone. One that has grown large is put aside, and the oldest goes.

    prints: whether what this process and its children print goes there, too. Children never put it aside.
    """

    def __init__(self, path: Path, *, prints: bool = False) -> None:
        self._prints, self._process, self._has_failed = prints, os.getpid(), False
        super().__init__(path, maxBytes=MOST_BYTES, backupCount=_OLDER, encoding="utf-8")
        self.setFormatter(logging.Formatter(_FORMAT))

    def bound(self) -> None:
        """Put the log aside if it has grown large, by prints too, of which no record is made."""
        if self._is_large():
            self.doRollover()

    def shouldRollover(self, record: logging.LogRecord) -> int:  # noqa: N802  as logging calls it
        return self._is_large()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  as logging calls it
        """A full disk is said once, and ends nothing."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._has_failed:
            self._has_failed = True
            print(f"{self.baseFilename}: lines are lost: {error.strerror}", file=sys.stderr)

    def close(self) -> None:
        with suppress(OSError):  # the last lines found no room; said above
            super().close()

    def _is_large(self) -> bool:
        if os.getpid() != self._process or self.stream is None:
            return False
        return os.fstat(self.stream.fileno()).st_size >= MOST_BYTES

    def _open(self) -> io.TextIOWrapper:
        file = io.TextIOWrapper(open_private(Path(self.baseFilename), append=True), encoding="utf-8")
        if self._prints:
            for output in (1, 2):
                os.dup2(file.fileno(), output)
        return file


@contextmanager
def log_files(files: dict[str, Path]) -> Iterator[None]:
    """Send each logger, by name, to its file and nowhere else."""
    with ExitStack() as stack:
        for name, path in files.items():
            stack.enter_context(_log_file(name, path))
        yield


class Causes(logging.Handler):
    """Keeps why messages could not be answered, each cause once, in fl_dp's words alone.

    For the console of whoever operates these clients. A library's words, or those of a task of one's own, may
    quote records: they stay in the log.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.words: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, FlDpError) or isinstance(error, TaskError):
            return
        if error.own_words not in self.words:
            self.words.append(error.own_words)


@contextmanager
def causes_in(name: str) -> Iterator[Causes]:
    """The causes that are logged to the logger meanwhile."""
    causes, logger = Causes(), logging.getLogger(name)
    logger.addHandler(causes)
    try:
        yield causes
    finally:
        logger.removeHandler(causes)


@contextmanager
def _log_file(name: str, path: Path) -> Iterator[None]:
    logger = logging.getLogger(name)
    handler = OwnersLog(path)
    before = logger.propagate, logger.level, logger.handlers
    logger.handlers = [handler]
    logger.propagate = False
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.propagate, logger.level, logger.handlers = before
        handler.close()
