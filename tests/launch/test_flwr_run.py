"""`flwr run .` in a checkout, as docs/running.md has it."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from launch.commands import processes_with

ROOT = Path(__file__).parents[2]
PORT = 39091  # of Flower's local SuperLink, whatever one does
pytestmark = pytest.mark.slow


@pytest.fixture
def flower_home(tmp_path: Path) -> Iterator[Path]:
    """Flower's state; its SuperLink, which `flwr run` leaves behind, ends with the test."""
    with socket.socket() as tried:
        if tried.connect_ex(("127.0.0.1", PORT)) == 0:
            pytest.skip("another SuperLink has the port that `flwr run` takes")
    home = tmp_path / "flwr"
    yield home
    for pid in processes_with(f"FLWR_HOME={home}"):
        os.kill(pid, signal.SIGTERM)


def test_it_trains_the_default_run_without_an_environment_of_its_own(tmp_path, flower_home):
    clone = tmp_path / "clone"
    clone.mkdir()
    for name in ("pyproject.toml", "server.py", "client.py"):
        shutil.copy(ROOT / name, clone)
    shutil.copytree(ROOT / "fl_dp", clone / "fl_dp", ignore=shutil.ignore_patterns("__pycache__"))
    bin_folder = Path(sys.executable).parent
    env = os.environ | {
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_HOME": str(flower_home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(clone),
    }
    done = subprocess.run(
        [bin_folder / "flwr", "run", ".", "--stream"],
        cwd=clone, env=env, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    summaries = list((clone / "runs").glob("*/summary.json"))
    assert len(summaries) == 1, done.stdout + done.stderr
    summary = json.loads(summaries[0].read_text())
    assert summary["status"] == "completed"
    assert summary["accuracy"] >= 0.85
    assert 0 < summary["epsilon"] <= 3.0
    assert not (flower_home / "runtime-envs").exists()
