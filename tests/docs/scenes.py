"""Where the commands of the pages are run: copies of the checkout, with what a page takes to be there."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from docs.blocks import ROOT, file_in

_WRAPPER = '#!/bin/sh\nexec "{python}" {words} "$@"\n'
_PEOPLE = "person,age,pain,ill\n" + "".join(
    f"{number // 2},{20 + number % 50},{number % 3 + 1},{int(number % 50 > 25)}\n" for number in range(400)
)
_SCHEMA = """[columns.person]
kind = "group"
[columns.age]
kind = "number"
range = [18, 90]
[columns.pain]
kind = "category"
categories = [1, 2, 3]
[columns.ill]
kind = "label"
classes = { no = [0], yes = [1] }
"""


class Scene:
    """A copy of the checkout whose .venv is this Python, a home of its own, and `fl-dp` and `python` on the path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkout"
        self.folder.mkdir()
        self._home = folder / "home"
        self._home.mkdir()
        skipped = shutil.ignore_patterns("__pycache__", "*.pyc")
        for name in ("fl_dp", "configs", "examples", "scripts", "benchmarks", "docs"):
            shutil.copytree(ROOT / name, self.folder / name, ignore=skipped)
        for file in [file for file in ROOT.iterdir() if file.is_file() and file.name != ".git"]:
            shutil.copy(file, self.folder)
        (self.folder / "scripts" / "setup.sh").write_text("#!/bin/sh\n")
        bin_folder = self.folder / ".venv" / "bin"
        bin_folder.mkdir(parents=True)
        for name, words in {"python": "", "fl-dp": "-P -m fl_dp.cli.main"}.items():
            wrapper = bin_folder / name
            wrapper.write_text(_WRAPPER.format(python=sys.executable, words=words))
            wrapper.chmod(0o755)

    def environment(self) -> dict[str, str]:
        state = {"HOME": str(self._home), "XDG_STATE_HOME": str(self._home / "state"), "TERM": "dumb"}
        path = f"{self.folder / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return os.environ | state | {"PATH": path, "PYTHONPATH": str(self.folder), "OMP_NUM_THREADS": "1"}

    def run(self, script: str) -> str:
        """What the commands print, one after the other, in one shell; each must end well."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script], cwd=self.folder, env=self.environment(),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=280,
        )  # fmt: skip
        assert done.returncode == 0, f"{script}\nexit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def _checkout(scene: Scene) -> None:
    """A clone, after the first use."""


def _own_task(scene: Scene) -> None:
    """With the README's my_task.py."""
    (scene.folder / "my_task.py").write_text(file_in(ROOT / "README.md", "my_task.py"))


def _people(scene: Scene) -> None:
    """With tables of people, and the arrays of three wards."""
    (scene.folder / "people.csv").write_text(_PEOPLE)
    (scene.folder / "kranke.csv").write_text(_PEOPLE.replace("ill", "krank").replace(",", ";"), encoding="cp1252")
    wards = (
        "import numpy; from pathlib import Path; Path('wards').mkdir()\n"
        "for name in ('0', '1', '2', 'server'):\n"
        "    x = numpy.random.default_rng(0).random((200, 4), dtype='float32'); y = (x.sum(1) > 2).astype('int64')\n"
        "    numpy.savez(f'wards/{name}.npz', x_train=x, y_train=y, x_test=x, y_test=y, "
        "classes=numpy.array(['no', 'yes']))\n"
    )
    scene.run(f'python -c "{wards}"')


def _first(scene: Scene) -> None:
    """A clone in which ./run.sh has trained to runs/first by the first command of the page."""


def _trained(scene: Scene) -> None:
    """With a run of one round in runs/NAME, and its ledger beside it as `ledger.sqlite`."""
    scene.run("fl-dp run --simulate --out runs/NAME 2 2 2 1 && cp runs/NAME/ledgers/ledger.sqlite .")


SCENES: dict[str, Callable[[Scene], None]] = {
    "checkout": _checkout, "own-task": _own_task, "people": _people, "first": _first, "trained": _trained,
    "wheel": _checkout,
}  # fmt: skip
