"""A client's journal: what servers have asked, and what it answered, for its operator alone.

A process of its own answers each message, so the journal is a file beside the ledger. Nothing of it leaves
the client, and no answer depends on it: if a line cannot be written, the client's log says so. A line holds
numbers from the plan and the ledger, and words of fl_dp; nothing from a record.
"""

import fcntl
import json
import logging
import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fl_dp.durable_files import NewLines, open_private, private_folder
from fl_dp.federation.client.journal_line import Event, Line

logger = logging.getLogger("fl_dp.clients")

FOLDER, NAME, OLDER, _LOCK = "journal", "journal.jsonl", "journal.1.jsonl", ".lock"
MOST_BYTES = 2**20  # of each of the two files; enough for some thousand rounds
_MOST_WORDS = 500  # characters of a reason


def journal_folder(ledger: str) -> Path:
    """The journal's folder for clients with that ledger."""
    return Path(ledger).absolute().parent / FOLDER


class Note:
    """The journal lines of one message: created when it arrives, then one or two lines are written."""

    def __init__(self, ledger: str, client: str) -> None:
        self._folder, self._started = journal_folder(ledger), time.monotonic()
        self._known: dict[str, Any] = {"client": client, "process": os.getpid()}

    def learn(self, **known: Any) -> None:
        """Set fields of the lines that follow."""
        self._known |= known

    def write(self, event: Event, **more: Any) -> None:
        """Append a line. If it cannot be written, the log says so, and nothing fails."""
        line = Line(
            event=event,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - self._started, 3),
            **{**self._known, **more},
        )
        try:
            append(self._folder, line)
        except OSError as error:
            logger.warning("%s: the journal is not kept there: %s", self._folder, error)


def append(folder: Path, line: Line) -> None:
    """Append the line to the journal in the folder, which is created if missing; OSError on failure."""
    finite = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in asdict(line).items()
    }
    text = json.dumps({**finite, "reason": line.reason[:_MOST_WORDS]}, allow_nan=False) + "\n"
    file = private_folder(folder) / NAME
    with open_private(folder / _LOCK, append=True) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # held for one line, among processes of this machine
        if file.exists() and file.lstat().st_size + len(text) > MOST_BYTES:
            file.replace(folder / OLDER)
        with open_private(file, append=True) as opened:
            opened.write(text.encode() if _ends_a_line(file) else f"\n{text}".encode())


def read_journal(folder: Path) -> list[Line]:
    """All lines, the oldest first; damaged ones are left out."""
    return [line for name in (OLDER, NAME) for line in _lines(_content(folder / name))]


def new_lines(folder: Path) -> Callable[[], list[Line]]:
    """Follows a journal: each call returns the lines that were appended since the last one."""
    lines = NewLines(folder / NAME, folder / OLDER, from_end=True)
    return lambda: _lines(b"\n".join(lines.new()))


def _ends_a_line(file: Path) -> bool:
    """False if a full disk has cut the last line off."""
    size = file.stat().st_size
    return size == 0 or _content(file, size - 1) == b"\n"


def _content(file: Path, offset: int = 0) -> bytes:
    try:
        with file.open("rb") as opened:
            opened.seek(offset)
            return opened.read(2 * MOST_BYTES)
    except OSError:
        return b""


def _lines(content: bytes) -> list[Line]:
    texts = content.decode("utf-8", errors="replace").splitlines()
    return [line for text in texts if (line := Line.of_json(text))]
