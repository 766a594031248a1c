"""A neutral folder in which commands run: what they write names no folder, user or host of this machine."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
WHERE = Path("/tmp/fl-dp-sample")  # a run's config.toml names its own folder, which is below this one
_MOST_SECONDS = 180.0
_VENV, CODE, _HOME, CONSOLE = "venv", "code", "home", "console"


@dataclass(frozen=True)
class Place:
    """folder: the working directory; a home, and links to Python and to the code, lie in it, too."""

    folder: Path

    def run(self, *words: str) -> None:
        """`fl-dp` with these words; it must end well."""
        with self.started(*words) as process:
            finish(process)

    @contextmanager
    def started(self, *words: str, code: str = CODE) -> Iterator["subprocess.Popen[bytes]"]:
        """The same, while it goes on; it is ended with the block. What it says is in the file `console`.

        code: the folder here in which fl_dp is.
        """
        home = self.folder / _HOME
        env = {
            **os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(self.folder / code),
        }  # fmt: skip
        python = self.folder / _VENV / "bin" / Path(sys.executable).name
        with (self.folder / CONSOLE).open("ab") as console:
            process = subprocess.Popen(
                [str(python), "-P", "-m", "fl_dp.cli.main", *words],
                cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=console, stderr=console,
            )  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(_MOST_SECONDS)


@contextmanager
def neutral_place() -> Iterator[Place]:
    """An empty one, which is deleted afterwards; it stays if something fails."""
    WHERE.mkdir()
    for name in (_HOME, "config", "kits", "ledgers"):
        (WHERE / name).mkdir()
    (WHERE / _VENV).symlink_to(sys.prefix)  # exported models name the files of PyTorch
    (WHERE / CODE).symlink_to(ROOT)
    yield Place(WHERE)
    shutil.rmtree(WHERE)


def finish(process: "subprocess.Popen[bytes]", expected: int = 0) -> None:
    """Wait for its end. RuntimeError for another exit code."""
    if (code := process.wait(_MOST_SECONDS)) != expected:
        raise RuntimeError(f"exit code {code}, expected {expected}; see {WHERE / CONSOLE}.")
