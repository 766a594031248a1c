"""Reads a log that a process is still writing."""

import json
from pathlib import Path
from typing import Any


class JsonLines:
    """The lines of a JSON-lines file, each returned once it is complete."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0

    def new(self) -> list[dict[str, Any]]:
        """Objects appended since the last call; none while the file does not exist."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self._offset)
            complete = file.read().rpartition(b"\n")[0]
        if not complete:
            return []
        self._offset += len(complete) + 1
        return [json.loads(line) for line in complete.splitlines()]


def tail(path: Path, lines: int = 15) -> str:
    """The last lines of a log, indented, for an error message."""
    if not path.exists():
        return "  (no output)"
    last = path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
    return "\n".join(f"  {line}" for line in last) or "  (no output)"
