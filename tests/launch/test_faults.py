"""Servers and clients that are killed in the middle, over real ports, in real processes."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.ledger.ledger import Ledger

pytestmark = pytest.mark.slow

MAIN = [sys.executable, "-P", "-m", "fl_dp.cli.main"]
DELTA = 1e-5


def wait_for(condition: Callable[[], object], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


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
            process = subprocess.Popen(
                [*MAIN, *words],
                cwd=self.folder,
                env=env,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def server(self, name: str, *words: str) -> "subprocess.Popen[bytes]":
        return self.start(name, "server", "--address", f"127.0.0.1:{self.port}", *words)

    def client(self, part: int, *words: str) -> "subprocess.Popen[bytes]":
        where = ["--server", f"127.0.0.1:{self.port}", "--name", f"site{part}", "--ledger", f"ledger{part}"]
        return self.start(
            f"client{part}", "client", *where, "--data", "digits", "--partition", f"{part}/2", *words
        )

    def said(self, name: str) -> str:
        return (self.folder / name).read_text()

    def rounds(self) -> list[dict[str, Any]]:
        file = self.folder / "out" / "rounds.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def spent(self, part: int) -> float:
        """Epsilon, from the client's own ledger."""
        with Ledger.open(self.folder / f"ledger{part}" / "ledger.sqlite") as ledger:
            return compute_epsilon(ledger.spent(f"digits, part {part}/2 (iid, seed 0)"), DELTA)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    made = Machine(tmp_path, port)
    yield made
    for process in made.processes:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(20)


MANY = ["--out", "out", "--set", "rounds=40", "--set", "round-timeout=60"]


def test_clients_outlive_a_server_that_is_killed_and_the_run_goes_on(machine):
    server = machine.server("server", *MANY)
    clients = [machine.client(part) for part in (0, 1)]
    wait_for(lambda: len(machine.rounds()) >= 3, 200)
    server.kill()
    server.wait()
    before = len(machine.rounds())
    assert before < 40
    resumed = machine.server("again", "--resume", "out")
    # killed within a round the run has paid for one more than it has, and the last does not fit
    code = resumed.wait(120)
    assert code in (0, 3), machine.said("again")
    assert [client.poll() for client in clients] == [None, None]
    assert [line["round"] for line in machine.rounds()] == list(range(1, 41 if code == 0 else 40))
    assert "resuming after round" in machine.said("again")
    for part in (0, 1):
        assert "the server cannot be reached" in machine.said(f"client{part}")
        # the killed server's last round is unknown to the new one until the client registers again
        shown = machine.rounds()[-1]["clients"][f"site{part}"]["epsilon"]
        assert shown == pytest.approx(machine.spent(part), abs=1e-6)
        assert shown <= 3.0


def test_a_client_whose_process_group_is_killed_costs_one_round_and_comes_back(machine):
    server = machine.server("server", *MANY, "--set", "min-clients=1")
    first, _ = machine.client(0, "--once"), machine.client(1, "--once")
    wait_for(lambda: len(machine.rounds()) >= 3, 200)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    killed = time.monotonic()
    lines = len(machine.rounds())
    wait_for(lambda: len(machine.rounds()) >= lines + 2, 25)
    assert time.monotonic() - killed < 25
    machine.client(0, "--once")
    wait_for(lambda: machine.rounds()[-1]["clients"]["site0"]["status"] == "trained", 200)
    assert server.wait(120) == 0, machine.said("server")
    shown = machine.rounds()[-1]["clients"]["site0"]["epsilon"]
    assert shown == pytest.approx(machine.spent(0), abs=1e-6)
