"""A copy of the repository in which one change at a time is made, and the fast tests are run."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Verdict = Literal["noticed", "timed out", "survived", "gone"]
_LIMIT = 900.0  # seconds for the tests of a part
_FAILURE = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_NO_TESTS = 5  # pytest's exit code when none was selected
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

# Parts whose promises are tested in other folders than tests/<part>, too.
_FOLDERS = {
    "audit": ("tests/audit", "tests/cli/test_audit.py"),
    "config": ("tests/config", "tests/cli", "tests/test_setup.py"),
    "durable_files": ("tests/test_durable_files.py", "tests/reporting"),
    "engine": ("tests/engine", "tests/privacy_engine"),
    "errors": ("tests/cli",),
    "federation": ("tests/federation", "tests/simulation/test_grid.py", "tests/simulation/test_clients.py"),
    "launch": ("tests/launch", "tests/cli"),
    "records": ("tests/test_records.py", "tests/accounting", "tests/federation"),
    "reporting": ("tests/reporting", "tests/cli"),
    "training": ("tests/training", "tests/federation", "tests/simulation"),
}


@dataclass(frozen=True, slots=True)
class Trial:
    """What the tests said of one change. by: the test that said it, else the folders; seconds: wall time."""

    verdict: Verdict
    by: str
    seconds: float


class Workshop:
    """A copy, below `folder`, of the files that git knows in `root`; `root` itself is never written."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._copy, self._temporary = folder / "copy", folder / "tmp"
        self._temporary.mkdir(parents=True)
        for name in _tracked(root):
            target = self._copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target)

    def try_source(self, file: str, make: Callable[[str], str | None], *further: str) -> Trial:
        """Change the file's text, run the mirrored test file, then the part's folders, and undo the change.

        None from `make` says that the change is gone. further: tests that are asked after the part's folders.
        """
        path = self._copy / file
        source = path.read_text(encoding="utf-8")
        changed = make(source)
        if changed is None:
            return Trial("gone", "", 0.0)
        began = time.monotonic()
        path.write_text(changed, encoding="utf-8")
        try:
            verdict, by = self._ask(file, further)
        finally:
            path.write_text(source, encoding="utf-8")
        return Trial(verdict, by, round(time.monotonic() - began, 1))

    def _ask(self, file: str, further: tuple[str, ...]) -> tuple[Verdict, str]:
        folders, mirror = folders_of(file, self._copy), mirrored_test(file, self._copy)
        asked = [(mirror,) if mirror else (), folders, further]
        for tests in filter(None, asked):
            code, output = self._pytest(tests)
            if code is None:
                return "timed out", " ".join(tests)
            if code not in (0, _NO_TESTS):
                return "noticed", _first_failure(output) or " ".join(tests)
        return "survived", " ".join((*folders, *further))

    def _pytest(self, tests: Sequence[str]) -> tuple[int | None, str]:
        """Pytest's exit code and output; None as code when it took longer than `_LIMIT` seconds."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", *_REPRODUCIBLE, *tests]
        with subprocess.Popen(
            command,
            cwd=self._copy,
            env=_environment(self._copy, self._temporary),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=_LIMIT)
            except subprocess.TimeoutExpired:
                output = ""
            finally:
                timed_out = process.poll() is None
                with suppress(ProcessLookupError):  # what the tests have left behind goes as well
                    os.killpg(process.pid, signal.SIGKILL)
        shutil.rmtree(
            self._copy / ".hypothesis", ignore_errors=True
        )  # examples that failed for another change
        return (None if timed_out else process.returncode), output


def _first_failure(output: str) -> str:
    found = _FAILURE.search(output)
    return found[1] if found else ""


_REPRODUCIBLE = ("-p", "no:cacheprovider", "--hypothesis-seed=0")


def _environment(copy: Path, temporary: Path) -> dict[str, str]:
    """The copy's fl_dp is the one that is imported, and no compiled file outlives a change."""
    threads = dict.fromkeys(_THREADS, "1")
    own = {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(temporary)}
    return {**os.environ, **threads, **own}


def _tracked(root: Path) -> list[str]:
    """Files of the working tree that git knows or would add."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listing, cwd=root, capture_output=True, text=True, check=True).stdout.split("\0")
    return [name for name in names if name and (root / name).is_file()]


def folders_of(file: str, root: Path) -> tuple[str, ...]:
    """Where the tests of `file`'s part are; those that exist."""
    part = Path(file).with_suffix("").parts[1]
    folders = _FOLDERS.get(part, (f"tests/{part}", f"tests/test_{part}.py"))
    return tuple(folder for folder in folders if (root / folder).exists())


def mirrored_test(file: str, root: Path) -> str | None:
    """tests/engine/test_probe.py for fl_dp/engine/probe.py; None where there is none."""
    path = Path(file)
    mirror = Path("tests", *path.parts[1:-1], f"test_{path.name}")
    return mirror.as_posix() if (root / mirror).exists() else None
