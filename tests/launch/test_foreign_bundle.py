"""A server that ships code to its clients: Flower runs it, ours never does."""

import time
from pathlib import Path

import pytest

from fl_dp.config.run import RunConfig
from fl_dp.launch.clients import write_client_files
from fl_dp.launch.flower.commands import write_client_commands, write_server_commands
from fl_dp.launch.flower.control import ControlClient
from fl_dp.launch.flower.environment import child_environment
from fl_dp.launch.flower.processes import Processes
from fl_dp.launch.flower.starting import start_superlink, start_supernodes, supernode_options, wait_for_nodes

PYPROJECT = """
[project]
name = "fl-dp"
version = "0.1.0"
dependencies = []
[tool.flwr.app]
publisher = "fl-dp"
[tool.flwr.app.components]
serverapp = "evil:server"
clientapp = "evil:client"
"""

# Whoever imports it outside the server leaves a trace; the server leaves what it was answered.
EVIL = """
import pathlib, sys, time
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

folder = pathlib.Path({folder!r})
if "clientapp" in sys.argv[0]:
    (folder / "evil code ran").touch()

server, client = ServerApp(), ClientApp()

@client.query()
def query(message, context):
    return Message(RecordDict({{"evil": ConfigRecord()}}), reply_to=message)

@server.main()
def main(grid, context):
    while not (nodes := list(grid.get_node_ids())):
        time.sleep(0.1)
    (reply,) = grid.send_and_receive([Message(RecordDict(), nodes[0], "query")], timeout=60)
    answer = sorted(reply.content) if reply.has_content() else [reply.error.reason]
    (folder / "answer").write_text(" ".join(answer))
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")  # Flower's own
@pytest.mark.parametrize("ours", [True, False], ids=["ours", "Flower's"])
def test_code_from_the_server_runs_on_a_client(ours: bool, tmp_path: Path) -> None:
    """The second case shows that the first one could fail."""
    logs = {"client 0": tmp_path / "client.log"}
    server_env = child_environment(
        tmp_path / "flower", write_server_commands(tmp_path / "server", tmp_path / "server.log"), threads=1
    )
    commands = write_client_commands(tmp_path / "client") if ours else tmp_path / "none"
    client_env = child_environment(tmp_path / "flower", commands, threads=1)
    (file,) = write_client_files(RunConfig(clients=1, min_clients=1, fit_clients=1), tmp_path, tmp_path)
    with Processes() as processes:
        log = tmp_path / "superlink.log"
        address = start_superlink(processes, server_env, log, ["--insecure"], "127.0.0.1", 0)
        options = {"client 0": supernode_options(file, address)}
        start_supernodes(processes, client_env, logs, options)
        with ControlClient(address) as control:
            wait_for_nodes(control, 1, processes, logs)
            run_id = control.start_run(evil_bundle(tmp_path), {}, None)
            deadline = time.monotonic() + 90
            while not (status := control.status(run_id)).finished and time.monotonic() < deadline:
                time.sleep(0.2)
    assert status.completed, status.details
    assert (tmp_path / "evil code ran").exists() != ours
    assert ((tmp_path / "answer").read_text() == "evil") != ours


def evil_bundle(folder: Path) -> bytes:
    from flwr.cli.build import build_fab_from_files

    files = {"pyproject.toml": PYPROJECT.encode(), "evil.py": EVIL.format(folder=str(folder)).encode()}
    return build_fab_from_files(files)[0]
