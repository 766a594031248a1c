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

from scripts.mutation.changes import Change, apply_change
from scripts.mutation.tests_of import folders_of, mirrored_test

Verdict = Literal["noticed", "timed out", "survived", "gone"]
_UNMEASURED = 900.0  # seconds for tests that were not run without a change before
_FAILURE = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_NO_TESTS = 5  # pytest's exit code when none was selected
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


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
        self._limits: dict[tuple[str, ...], float] = {}
        for name in _tracked(root):
            target = self._copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target)

    def check_unchanged(self, file: str) -> None:
        """Run the tests of `file`'s part without any change: SystemExit unless they pass.

        Their time gives the limit for the trials. A part is run once.
        """
        folders = folders_of(file, self._copy)
        if folders in self._limits:
            return
        began = time.monotonic()
        code, output = self._pytest(folders, limit=None)
        if code:
            raise SystemExit(f"{' '.join(folders)}: fails without any change, so says nothing.\n{output}")
        self._limits[folders] = 60.0 + 3.0 * (time.monotonic() - began)

    def try_change(self, change: Change) -> Trial:
        """Make the change, run the mirrored test file, then the part's folders, and undo the change."""
        return self.try_source(change.file, lambda source: apply_change(change, source))

    def try_source(self, file: str, make: Callable[[str], str | None], *further: str) -> Trial:
        """The same for a change of a file's whole text; None from `make` says that it is gone.

        further: tests that are asked after the part's folders.
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
        folders = folders_of(file, self._copy)
        limit, mirror = self._limits.get(folders, _UNMEASURED), mirrored_test(file, self._copy)
        asked = [(mirror,) if mirror else (), folders, further]
        for tests in filter(None, asked):
            code, output = self._pytest(tests, limit)
            if code is None:
                return "timed out", " ".join(tests)
            if code not in (0, _NO_TESTS):
                return "noticed", _first_failure(output) or " ".join(tests)
        return "survived", " ".join((*folders, *further))

    def _pytest(self, tests: Sequence[str], limit: float | None) -> tuple[int | None, str]:
        """Pytest's exit code and output; None as code when it took longer than `limit` seconds."""
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
                output, _ = process.communicate(timeout=limit)
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
