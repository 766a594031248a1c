"""What all tests may use: the repository's `scripts`, however pytest was started; a copy of the package; and
a process that may take little memory.
"""

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import fl_dp

# The same inputs in every run of `make test`; `make test-all` draws others, and more of them.
settings.register_profile("steady", derandomize=True, deadline=None, database=None)
settings.register_profile("long", max_examples=1000, deadline=None, print_blob=True)
settings.load_profile("steady")

sys.path.insert(0, str(Path(__file__).parents[1]))


class Copy:
    """A folder with a copy of fl_dp, which is what processes run there import."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(fl_dp.__file__).parent, folder / "fl_dp", ignore=ignored)

    def add(self, path: str, text: str) -> None:
        """One new file below fl_dp."""
        with (self.folder / "fl_dp" / path).open("x", encoding="utf-8") as file:
            file.write(text)

    def edit(self, path: str, old: str, new: str) -> None:
        """A change in a file below fl_dp; `old` must stand there once."""
        file = self.folder / "fl_dp" / path
        before, after = file.read_text(encoding="utf-8").split(old)
        file.write_text(before + new + after, encoding="utf-8")

    def run(self, code: str, *words: str) -> subprocess.CompletedProcess[str]:
        """What becomes of the code in a process of its own."""
        return subprocess.run(
            [sys.executable, "-c", code, *words],
            capture_output=True, text=True, check=False, cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(self.folder)},
        )  # fmt: skip

    def lines(self, code: str) -> list[str]:
        """What the code prints; it must end well."""
        result = self.run(code)
        assert result.returncode == 0, result.stderr
        return result.stdout.splitlines()


@pytest.fixture(scope="session")
def copy_package() -> Callable[[Path], Copy]:
    return Copy


@pytest.fixture
def copied(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


@pytest.fixture
def little_memory() -> Iterator[None]:
    """4 GiB of address space more than now: what takes much more is a MemoryError."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**32, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)
