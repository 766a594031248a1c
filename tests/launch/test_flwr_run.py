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
from flwr.app import Context, RecordDict
from launch.commands import processes_with

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.launch.clients import client_config, write_client_file
from fl_dp.launch.flwr_run import settings_of

ROOT = Path(__file__).parents[2]
PORT = 39091  # of Flower's local SuperLink, whatever one does


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


@pytest.mark.slow
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
        "RAY_ADDRESS": "local",  # a cluster that another test has started ends with that test
    }
    done = subprocess.run(
        [bin_folder / "flwr", "run", ".", "--stream"],
        cwd=clone,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    summaries = list((clone / "runs").glob("*/summary.json"))
    assert len(summaries) == 1, done.stdout + done.stderr
    summary = json.loads(summaries[0].read_text())
    assert summary["status"] == "completed"
    assert summary["accuracy"] >= 0.85
    assert 0 < summary["epsilon"] <= 3.0
    assert not (flower_home / "runtime-envs").exists()


def context(config: RunConfig, part: int, parts: int) -> Context:
    node = {"partition-id": part, "num-partitions": parts}
    return Context(run_id=7, node_id=1, node_config=node, state=RecordDict(), run_config=config.to_flat())


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_they_follow_from_the_run_config(tmp_path):
    settings = settings_of(context(RunConfig(epsilon=1.25, model="tanh-cnn"), 1, 2))
    assert (settings.client, settings.partition_id, settings.num_partitions) == ("1", 1, 2)
    assert (settings.epsilon, settings.model) == (1.25, "tanh-cnn")
    assert settings.ledger == str(tmp_path / "runs" / "7" / "ledgers" / "ledger.sqlite")


def test_another_number_of_clients_is_refused_with_the_command_that_helps():
    with pytest.raises(ConfigError, match=r"simulates 10 SuperNodes; .* --num-supernodes 2\."):
        settings_of(context(RunConfig(), 1, 10))


def test_settings_of_their_own_come_first(tmp_path):
    file = write_client_file(client_config(RunConfig(epsilon=0.5), 0, tmp_path), tmp_path / "own.toml")
    asked = context(RunConfig(epsilon=9.0), 0, 2)
    asked.node_config["client-config"] = str(file)
    assert settings_of(asked).epsilon == 0.5
