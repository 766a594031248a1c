"""The logs of a server that runs in this process; readable by their owner alone."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from fl_dp.durable_files import open_private

_FORMAT = "%(asctime)s %(levelname)s %(message)s"


@contextmanager
def log_files(files: dict[str, Path]) -> Iterator[None]:
    """Send each logger, by name, to its file and nowhere else."""
    with ExitStack() as stack:
        for name, path in files.items():
            stack.enter_context(_log_file(name, path))
        yield


@contextmanager
def _log_file(name: str, path: Path) -> Iterator[None]:
    logger = logging.getLogger(name)
    open_private(path, append=True).close()
    handler = logging.FileHandler(path, encoding="utf-8")
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
