"""Commands of fl_dp as a user starts them, and what they leave."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fl_dp.accounting.ledger.ledger import Ledger

MAIN = [sys.executable, "-P", "-m", "fl_dp"]


def fl_dp(*words: str, settings: Sequence[str] = (), **more: Any) -> "subprocess.CompletedProcess[str]":
    """What becomes of `fl-dp WORDS`, with a --set for each setting."""
    pairs = [word for one in settings for word in ("--set", one)]
    return subprocess.run(
        [*MAIN, *words, *pairs], capture_output=True, text=True, check=False, timeout=600, **more
    )


def trained(*words: str, settings: Sequence[str] = (), **more: Any) -> str:
    """What a command says that ends well."""
    done = fl_dp(*words, settings=settings, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def wait_for(condition: Callable[[], object], seconds: float = 300.0, said: Callable[[], str] = str) -> None:
    """said: what tells why, where it is waited for in vain."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, said()
        time.sleep(0.01)


def json_lines(file: Path) -> list[dict[str, Any]]:
    """Those of a file that may not be there yet."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def processes_with(text: str) -> list[int]:
    """Living processes whose environment holds the text."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if text.encode() in environ.read_bytes():
                found.append(int(environ.parent.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


def is_alive(pid: int) -> bool:
    """A zombie has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def steps_paid(folder: Path) -> dict[str, int]:
    """Steps that the folder's ledger has paid for, by data set."""
    with Ledger.open_existing(folder / "ledger.sqlite") as ledger:
        return {one.dataset: sum(entry.steps for entry in one.spent()) for one in ledger.accounts()}
