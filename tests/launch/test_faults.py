"""Servers and clients that are killed in the middle, over real ports, in real processes."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from launch.commands import MAIN, json_lines, wait_for

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.ledger.ledger import Ledger

OUT = ["--out", "out", "--set", "round-timeout=60"]


@dataclass
class Machine:
    """One machine with a server and two clients of one user."""

    folder: Path
    port: int
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def start(self, name: str, *words: str) -> "subprocess.Popen[bytes]":
        """A command of fl-dp, in a process group of its own; its console is the file `name`."""
        env = {**os.environ, "XDG_STATE_HOME": str(self.folder / "state"), "OMP_NUM_THREADS": "1"}
        with (self.folder / name).open("wb") as console:
            pipes = {"stdout": console, "stderr": console, "start_new_session": True}
            process = subprocess.Popen([*MAIN, *words], cwd=self.folder, env=env, **pipes)
        self.processes.append(process)
        return process

    def server(self, name: str, *words: str) -> "subprocess.Popen[bytes]":
        return self.start(name, "server", "--address", f"127.0.0.1:{self.port}", *words)

    def client(self, part: int, *words: str) -> "subprocess.Popen[bytes]":
        where = ["--server", f"127.0.0.1:{self.port}", "--name", f"site{part}", "--ledger", f"ledger{part}"]
        data = ["--data", "digits", "--partition", f"{part}/2"]
        return self.start(f"client{part}", "client", *where, *data, *words)

    def said(self, name: str) -> str:
        return (self.folder / name).read_text()

    def rounds(self) -> list[dict]:
        return json_lines(self.folder / "out" / "rounds.jsonl")

    def spent(self, part: int) -> float:
        """Epsilon, from the client's own ledger."""
        with Ledger.open(self.folder / f"ledger{part}" / "ledger.sqlite") as ledger:
            return compute_epsilon(ledger.spent(f"digits, part {part}/2 (iid, seed 0)"), 1e-5)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    made = Machine(tmp_path, port)
    yield made
    for process in made.processes:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def test_clients_outlive_a_server_that_is_killed_and_the_run_goes_on(machine):
    server = machine.server("server", *OUT, "--set", "rounds=8")
    clients = [machine.client(part) for part in (0, 1)]
    wait_for(lambda: len(machine.rounds()) >= 2)
    server.kill()
    server.wait()
    before = len(machine.rounds())
    assert before < 8
    resumed = machine.server("again", "--resume", "out")
    # killed within a round the run has paid for one more than it has, and the last does not fit
    code = resumed.wait(300)
    assert code in (0, 3), machine.said("again")
    assert [client.poll() for client in clients] == [None, None]
    assert [line["round"] for line in machine.rounds()] == list(range(1, 9 if code == 0 else 8))
    assert "resuming after round" in machine.said("again")
    for part in (0, 1):
        assert "the server cannot be reached" in machine.said(f"client{part}")
        # the killed server's last round is unknown to the new one until the client registers again
        shown = machine.rounds()[-1]["clients"][f"site{part}"]["epsilon"]
        assert shown == pytest.approx(machine.spent(part), abs=1e-6)
        assert shown <= 3.0


@pytest.mark.slow
def test_a_client_whose_process_group_is_killed_costs_one_round_and_comes_back(machine):
    server = machine.server("server", *OUT, "--set", "rounds=40", "--set", "min-clients=1")
    first, _ = machine.client(0, "--once"), machine.client(1, "--once")
    wait_for(lambda: len(machine.rounds()) >= 3)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    lines = len(machine.rounds())
    wait_for(lambda: len(machine.rounds()) >= lines + 2, 50)  # it is not waited for until round-timeout
    machine.client(0, "--once")
    wait_for(lambda: machine.rounds()[-1]["clients"]["site0"]["status"] == "trained")
    assert server.wait(300) == 0, machine.said("server")
    shown = machine.rounds()[-1]["clients"]["site0"]["epsilon"]
    assert shown == pytest.approx(machine.spent(0), abs=1e-6)
