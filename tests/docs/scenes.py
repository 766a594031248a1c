"""Where the commands of the pages are run: copies of the checkout, with what a page takes to be there."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
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
bands = [40]
[columns.pain]
kind = "category"
categories = [1, 2, 3]
[columns.ill]
kind = "label"
classes = { no = [0], yes = [1] }
"""


class Scene:
    """A copy of the checkout whose .venv is this Python and on the path, and a home of its own."""

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
        torchrun = "-m torch.distributed.run"
        for name, words in {"python": "", "fl-dp": "-P -m fl_dp", "torchrun": torchrun}.items():
            wrapper = bin_folder / name
            wrapper.write_text(_WRAPPER.format(python=sys.executable, words=words))
            wrapper.chmod(0o755)

    def environment(self) -> dict[str, str]:
        home = {
            "HOME": str(self._home),
            "XDG_STATE_HOME": str(self._home / ".local" / "state"),
            "TERM": "dumb",
        }
        path = f"{self.folder / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return os.environ | home | {"PATH": path, "PYTHONPATH": str(self.folder), "OMP_NUM_THREADS": "1"}

    def run(self, script: str, code: int = 0) -> str:
        """What the commands print, in one shell; each must end well, the last with `code`."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == code, f"{script}\nexit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def _checkout(scene: Scene) -> None:
    """A clone, after the first use."""


def _own_task(scene: Scene) -> None:
    """With the README's my_task.py."""
    (scene.folder / "my_task.py").write_text(file_in(ROOT / "README.md", "my_task.py"))


def _python(scene: Scene) -> None:
    """With the programs of planning.md, python.md and engineer.md, and the README's task."""
    _own_task(scene)
    pages = {"noise.py": "planning", "frames.py": "python", "loop.py": "engineer", "job.py": "engineer"}
    for name, page in pages.items():
        (scene.folder / name).write_text(file_in(ROOT / "docs" / f"{page}.md", name))


def _researcher(scene: Scene) -> None:
    """With the programs of researcher.md."""
    for name in ("own.py", "methods.py"):
        (scene.folder / name).write_text(file_in(ROOT / "docs" / "researcher.md", name))


def _people(scene: Scene) -> None:
    """With a table of people."""
    (scene.folder / "people.csv").write_text(_PEOPLE)


def _schema(scene: Scene) -> None:
    """With that table and its schema, filled in."""
    (scene.folder / "people.csv").write_text(_PEOPLE)
    (scene.folder / "people.schema.toml").write_text(_SCHEMA)


def _wards(scene: Scene) -> None:
    """With the arrays of three wards and of the server."""
    folder = scene.folder / "wards"
    folder.mkdir()
    for seed, name in enumerate(("0", "1", "2", "server")):
        inputs = np.random.default_rng(seed).random((200, 4), dtype=np.float32)
        targets, classes = (inputs.sum(axis=1) > 2).astype(np.int64), np.array(["no", "yes"])
        np.savez(
            folder / f"{name}.npz",
            x_train=inputs,
            y_train=targets,
            x_test=inputs,
            y_test=targets,
            classes=classes,
        )


def _cells(scene: Scene) -> None:
    """With the files of site.md."""
    for name in ("cells.py", "cells.schema.toml", "federation.toml", "client.toml"):
        (scene.folder / name).write_text(file_in(ROOT / "docs" / "site.md", name))


def _trained(scene: Scene) -> None:
    """With a run in runs/NAME, its ledger where a client has it, and copies of that, here and in COPY/."""
    scene.run(
        "fl-dp run --simulate --out runs/NAME --ledger ~/.local/state/fl-dp/ledger 2 2 2 1\n"
        "cp ~/.local/state/fl-dp/ledger/ledger.sqlite . && mkdir COPY && cp ledger.sqlite COPY/"
    )


SCENES: dict[str, Callable[[Scene], None]] = {
    "checkout": _checkout,
    "first": _checkout,
    "own-task": _own_task,
    "python": _python,
    "researcher": _researcher,
    "people": _people,
    "schema": _schema,
    "wards": _wards,
    "cells": _cells,
    "trained": _trained,
}
