"""What tests of several parts share."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import fl_dp

Extended = Callable[[Mapping[str, str], str], str]


@pytest.fixture
def extended(tmp_path: Path) -> Extended:
    """Runs code in a process of its own whose fl_dp is a copy with some files more, or in place of its own.

    files: text by path below fl_dp/. Returns what the code prints.
    """

    def run(files: Mapping[str, str], code: str) -> str:
        package = tmp_path / "extended" / "fl_dp"
        shutil.copytree(
            Path(fl_dp.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
        )
        for path, text in files.items():
            (package / path).write_text(text, encoding="utf-8")
        result = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONPATH": str(package.parent)},
            cwd=package.parent,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run
