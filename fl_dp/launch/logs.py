"""The logs of a server and of clients: readable by their owner alone, and limited in size."""

import io
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path

from fl_dp.durable_files import open_private
from fl_dp.errors import FlDpError, TaskError
from fl_dp.federation.security import PARTS

_FORMAT = "%(asctime)s %(levelname)s %(message)s"
MOST_BYTES = 8 * 2**20  # of a log, and of each older one beside it
_MOST_OF_A_RECORD = 2**16  # characters; a message may be of any length, and would push out all others
_OLDER = 2  # NAME.log.1 and NAME.log.2
_MOST_EVENTS = 10  # lines in a minute, of each kind of security event and each site
_MINUTE = 60.0


def _cut(text: str) -> str:
    left = len(text) - _MOST_OF_A_RECORD
    return text if left <= 0 else f"{text[:_MOST_OF_A_RECORD]} ... ({left} more characters)"


class TextFormatter(logging.Formatter):
    """Formats a record, truncated to a maximum length."""

    def format(self, record: logging.LogRecord) -> str:
        return _cut(super().format(record))


class OwnersLog(RotatingFileHandler):
    """A log file for its owner alone, with rotation: the oldest file is deleted.

    prints: whether the log also gets what this process and its children print. Children never rotate it.
    """

    def __init__(self, path: Path, *, prints: bool = False) -> None:
        self._prints, self._process, self._has_failed = prints, os.getpid(), False
        super().__init__(path, maxBytes=MOST_BYTES, backupCount=_OLDER, encoding="utf-8")
        self.setFormatter(TextFormatter(_FORMAT))

    def bound(self) -> None:
        """Rotate the log if it has grown large, also by prints, which make no log record."""
        if self._is_large():
            self.doRollover()

    def shouldRollover(self, record: logging.LogRecord) -> int:  # noqa: N802  as logging calls it
        return self._is_large()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  as logging calls it
        """Report a full disk once, and go on."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._has_failed:
            self._has_failed = True
            print(f"{self.baseFilename}: log lines are lost: {error.strerror}", file=sys.stderr)

    def close(self) -> None:
        with suppress(OSError):  # no room for the last lines; reported above
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


class EventFormatter(logging.Formatter):
    """Formats a security event as one line of JSON; its time is UTC."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        said = {"time": when, "level": record.levelname, "message": _cut(record.getMessage())}
        return json.dumps(said | {part: value for part in PARTS if (value := getattr(record, part, None))})


@dataclass(slots=True)
class _Minute:
    """Counts for one kind of event in one minute. left_out: since its last line."""

    began: float
    left_out: int = 0
    lines: set[tuple[str, ...]] = field(default_factory=set)


class FewEvents(logging.Filter):
    """Rate-limits security events, so that a flood neither fills the disk nor hides other events.

    The same event passes once a minute, and at most _MOST_EVENTS of a kind pass: for each site, and for all
    strangers together. The next line of the kind says how many were left out.
    """

    def __init__(self) -> None:
        super().__init__()
        self._minutes: dict[tuple[str, str], _Minute] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        event, who, source = (str(getattr(record, part, "")) for part in ("event", "who", "source"))
        kind, line, now = (event, who), (source, record.getMessage()), time.monotonic()
        minute = self._minutes.setdefault(kind, _Minute(now))
        if now - minute.began >= _MINUTE:
            minute = self._minutes[kind] = _Minute(now, minute.left_out)
        if line in minute.lines or len(minute.lines) >= _MOST_EVENTS:
            minute.left_out += 1
            return False
        minute.lines.add(line)
        record.__dict__["left_out"], minute.left_out = minute.left_out, 0
        return True


def security_log(path: Path) -> OwnersLog:
    log = OwnersLog(path)
    log.setFormatter(EventFormatter())
    log.addFilter(FewEvents())
    return log


@contextmanager
def log_files(files: dict[str, Path], made: Callable[[Path], logging.Handler] = OwnersLog) -> Iterator[None]:
    """Send each named logger to its file and nowhere else."""
    with ExitStack() as stack:
        for name, path in files.items():
            stack.enter_context(_log_file(name, made(path)))
        yield


class Causes(logging.Handler):
    """Keeps the reasons why messages could not be answered, each once, in fl_dp's words alone.

    They are for the console of the clients' operator. Words of a library, or of a user's own task, may quote
    records: they stay in the log.
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
    """Collect the reasons that are logged to the logger inside the block."""
    causes, logger = Causes(), logging.getLogger(name)
    logger.addHandler(causes)
    try:
        yield causes
    finally:
        logger.removeHandler(causes)


@contextmanager
def _log_file(name: str, handler: logging.Handler) -> Iterator[None]:
    logger = logging.getLogger(name)
    before = logger.propagate, logger.level, logger.handlers
    logger.handlers = [handler]
    logger.propagate = False
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.propagate, logger.level, logger.handlers = before
        handler.close()
