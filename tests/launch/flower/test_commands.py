import subprocess
import sys
from pathlib import Path

import pytest
from flwr.supercore.constant import TASK_TYPE_TO_COMMAND

from fl_dp.launch.flower.commands import write_client_commands, write_server_commands


def test_a_client_refuses_every_other_kind_of_task(tmp_path: Path) -> None:
    folder = write_client_commands(tmp_path / "bin")
    assert {path.name for path in folder.iterdir()} == set(TASK_TYPE_TO_COMMAND.values())
    for command in set(TASK_TYPE_TO_COMMAND.values()) - {"flwr-clientapp"}:
        result = subprocess.run([folder / command], capture_output=True, text=True, check=False)
        assert result.returncode == 1
        assert "a client runs only its own code" in result.stderr


def test_a_clients_own_command_is_found_and_starts(tmp_path: Path) -> None:
    folder = write_client_commands(tmp_path / "a folder with spaces")
    result = subprocess.run(
        [folder / "flwr-clientapp", "--help"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "--runtime-api-address" in result.stdout


@pytest.mark.parametrize("command", ["flwr-serverapp", "flwr-simulation"])
def test_a_servers_apps_are_flowers_own_and_write_a_log(tmp_path: Path, command: str) -> None:
    log = tmp_path / "it's a log"
    folder = write_server_commands(tmp_path / "bin", log)
    assert subprocess.run([folder / command, "--help"], check=False).returncode == 0
    assert f"usage: {command}" in log.read_text()
    assert str(Path(sys.executable).parent) in (folder / command).read_text()
