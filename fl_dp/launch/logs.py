"""The logs of a server that runs in this process; readable by their owner alone."""

import io
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from fl_dp.durable_files import open_private
from fl_dp.errors import FlDpError, TaskError

_FORMAT = "%(asctime)s %(levelname)s %(message)s"


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
    handler = logging.StreamHandler(io.TextIOWrapper(open_private(path, append=True), encoding="utf-8"))
    handler.setFormatter(logging.Formatter(_FORMAT))
    before = logger.propagate, logger.level, logger.handlers
    logger.handlers = [handler]
    logger.propagate = False
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.propagate, logger.level, logger.handlers = before
        handler.close()
        handler.stream.close()
