"""Reads the files of one run, while it goes on and when it is over.

They may have been cut off, edited or copied in part. What does not have the form of `reports` is a
ConfigError. Texts come from clients, and are not cleaned.
"""

import json
from collections.abc import Iterator
from typing import TypeVar

from fl_dp.config.files import check_plain, parse_json
from fl_dp.durable_files import is_held
from fl_dp.errors import ConfigError
from fl_dp.reporting.provenance import require_own, unreadable
from fl_dp.reporting.reports import RoundReport, Summary
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.schema import UnfitError, read_json

Report = TypeVar("Report")


class Run:
    """One run. Each call reads the files anew."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    def summary(self) -> Summary | None:
        """summary.json; None without one. ConfigError, which names the file, as of `read_summary`."""
        path = self.folder.summary
        check_plain(path)
        try:
            return read_summary(path.read_bytes(), str(path))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror}.") from None

    @property
    def at_work(self) -> bool:
        """Whether a process works on the run: it holds a lock, which the system releases when it dies."""
        return any(is_held(lock) for lock in (self.folder.lock, self.folder.server_lock))

    def rounds(self) -> Iterator[RoundReport]:
        """The reports of the rounds; none without a file. An incomplete last line is ignored.

        ConfigError, naming file and line, for other damage.
        """
        path = self.folder.rounds
        check_plain(path)
        try:
            with path.open("rb") as lines:
                for number, line in enumerate(lines, 1):
                    if line.endswith(b"\n"):
                        yield read_round(line, f"{path}, line {number}")
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read ({type(error).__name__}).") from None


def read_summary(content: bytes, where: str) -> Summary:
    """The summary; ConfigError, naming `where`, if it is damaged, or of another version."""
    found = parse_json(content, where)
    require_own(found, where)
    return _read(Summary, content, where, found)


def read_round(line: bytes | str, where: str) -> RoundReport:
    """A line of rounds.jsonl; ConfigError, naming `where`, if it is damaged."""
    return _read(RoundReport, line, where)


def read_part(kind: type[Report], part: object, where: str) -> Report:
    """A part of a report that is still JSON; ConfigError, naming `where`, if it is damaged."""
    return _read(kind, json.dumps(part), where)


def _read(kind: type[Report], content: bytes | str, where: str, summary: object = None) -> Report:
    try:
        return read_json(kind, content)
    except UnfitError as error:
        raise ConfigError(f"{where}: {unreadable(summary, error.problem)}") from None
