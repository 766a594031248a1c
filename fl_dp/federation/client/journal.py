"""A client's journal: what servers have asked, and what it answered. It is for the client's operator only.

Each message is answered in its own process, so the journal is a file beside the ledger. It never leaves the
client, and no answer depends on it: if a line cannot be written, the client's log says so. A line holds
numbers from the plan and the ledger, and words of fl_dp; nothing from a record.
"""

import fcntl
import json
import logging
import math
import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self

from fl_dp.accounting.ledger.accounts import Account
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.files import DAMAGED
from fl_dp.durable_files import NewLines, open_private, private_folder
from fl_dp.errors import LedgerError
from fl_dp.records import total_steps
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.reports import NOT_PRIVATE
from fl_dp.reporting.wording import counted
from fl_dp.schema import read

logger = logging.getLogger("fl_dp.clients")

FOLDER, NAME, OLDER, _LOCK = "journal", "journal.jsonl", "journal.1.jsonl", ".lock"
MOST_BYTES = 2**20  # of each of the two files; enough for some thousand rounds
_MOST_WORDS = 500  # characters of a reason
_SECONDS = len("2026-01-31T12:00:00")  # of a time in ISO 8601


Event = Literal["registered", "asked", "trained", "evaluated", "declined", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One event.

    at: UTC. client: its name. dataset: the data's name in the ledger, empty if they were not read. run,
    round: empty and 0 if the event is not of a round. steps: asked for, or taken. before, after: the total
    epsilon of the data, None if infinite or unknown; budget: its limit. total: the steps that the data have
    spent so far, None if unknown; an older copy of the ledger has fewer. seconds: since the message came.
    reason: of a refusal. process: id of the process that answered.
    """

    event: Event
    at: str
    client: str
    dataset: str = ""
    run: str = ""
    round: int = 0
    steps: int = 0
    before: float | None = None
    after: float | None = None
    budget: float | None = None
    total: int | None = None
    seconds: float = 0.0
    reason: str = ""
    process: int = 0

    @classmethod
    def of_json(cls, text: str) -> Self | None:
        """The line in a text; None if it is no line, or one that was cut off."""
        try:
            return read(cls, json.loads(text), others=True)
        except DAMAGED:
            return None


def in_words(line: Line) -> str:
    """One line for an operator; epsilons are rounded up."""
    what = f"round {line.round} of run {line.run}" if line.run else "a server asked who this client is"
    match line.event:
        case "asked":
            return f"{what}: asked for {counted(line.steps, 'step')}"
        case "registered":
            return f"{what}; {_spent(line)} is spent"
        case "trained":
            return f"{what}: {counted(line.steps, 'step')}, {_course(line)}, {line.seconds:.1f} s"
        case "evaluated":
            return f"{what}: evaluated on its own test records, of which {_spent(line)} is spent"
    paid = f", {_course(line)}" if line.after not in (None, line.before) else ""
    return f"{what}: {line.event}{paid}: {line.reason}"


def spent_in_words(line: Line) -> str:
    """How much of the budget was spent by then; empty if the line has no number, or no epsilon holds."""
    return "" if line.after is None or line.budget is None else f"{_spent(line)} is spent"


def _course(line: Line) -> str:
    if line.after is None:
        return f"{NOT_PRIVATE} (no epsilon holds)"
    return f"epsilon {rounded_up(line.before)} -> {rounded_up(line.after)} of {rounded_up(line.budget)}"


def _spent(line: Line) -> str:
    return f"epsilon {rounded_up(line.after)} of {rounded_up(line.budget)}"


def journal_folder(ledger: str) -> Path:
    return Path(ledger).absolute().parent / FOLDER


class Note:
    """The journal's lines for one message, one or two. Create it when the message arrives."""

    def __init__(self, ledger: str, client: str) -> None:
        self._folder, self._started = journal_folder(ledger), time.monotonic()
        self._known: dict[str, Any] = {"client": client, "process": os.getpid()}

    def learn(self, **known: Any) -> None:
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
            logger.warning("%s: the journal cannot be written: %s", self._folder, error)


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


def check_newest_ledger(file: Path, datasets: Collection[str] = ()) -> None:
    """Raise LedgerError if the journal beside the ledger names rounds that the ledger does not know.

    The ledger is then an older copy or was started anew. If both files are restored together, nothing is
    noticed. datasets: the names to check, also if the ledger has no account of them; by default those that it
    has, or if it has none, those of the journal.
    """
    folder = journal_folder(str(file))
    lines = [line for line in read_journal(folder) if line.total]
    with Ledger.open_existing(file) as ledger:
        accounts = ledger.accounts()
    missing = [
        line
        for name in dict.fromkeys(datasets or [one.dataset for one in accounts or lines])
        for line in _unknown_to(
            [one for one in accounts if one.dataset == name], [one for one in lines if one.dataset == name]
        )
    ]
    if missing:
        raise LedgerError(
            f"{file}: does not have round {missing[-1].round} of run {missing[-1].run}, which {folder} "
            "records: the ledger is an older copy or was recreated. Restore the newest copy, or continue "
            "without one as docs/operating.md describes; spending cannot be undone."
        )


def _unknown_to(accounts: Sequence[Account], noted: Sequence[Line]) -> Sequence[Line]:
    """The journal's lines of a data set that its accounts, oldest first, do not hold as payments."""
    if not accounts:
        return noted
    began, since = (f(one.registered[:_SECONDS] for one in accounts) for f in (min, max))
    known = total_steps(accounts[-1].spent())
    return [
        line
        for line in noted
        if line.at[:_SECONDS] < began or (line.at[:_SECONDS] > since and (line.total or 0) > known)
    ]


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
