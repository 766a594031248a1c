"""docs/deployment.md, run word by word in a home for each machine: from keys to a model, and a revocation."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from launch.commands import MAIN, fl_dp, wait_for

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "deployment.md"


def on_the_page(kind: str, machine: str) -> list[str]:
    """The page's blocks of that kind for that machine, in order; one for both sites has north's name."""
    fence = rf"^```{kind} (?:north )?{machine}(?: south)?\n(.*?)^```$"
    blocks = re.findall(fence, PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return [block.replace("north", machine) if machine == "south" else block for block in blocks]


class Machines:
    """A home, a state folder and a working directory for each; what they share is sent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.started: list[subprocess.Popen[bytes]] = []
        for name in ("authority", "server", "north", "south"):
            (folder / name).mkdir()

    def _settings(self, machine: str) -> dict[str, object]:
        home = self.folder / machine
        env = {
            **os.environ,
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
        }
        return {"cwd": home, "env": env, "stdin": subprocess.DEVNULL}

    def run(self, machine: str, command: str, *more: str) -> str:
        """What the page's command prints; it must end well."""
        name, *words = shlex.split(command)
        assert name == "fl-dp"
        done = fl_dp(*words, *more, **self._settings(machine))
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def start(self, machine: str, command: str) -> "subprocess.Popen[bytes]":
        """The page's command as a process; what it says goes to the machine's `console`."""
        with (self.folder / machine / "console").open("ab") as console:
            process = subprocess.Popen(
                [*MAIN, *shlex.split(command)[1:]],
                stdout=console,
                stderr=console,
                **self._settings(machine),
            )
        self.started.append(process)
        return process

    def said(self, machine: str) -> str:
        return (self.folder / machine / "console").read_text()

    def write(self, machine: str, toml: str, name: str = "federation.toml") -> None:
        """A file of the page's, with a port that is free here."""
        text = toml.replace("9092", str(self.port))
        assert text != toml or name != "federation.toml"
        (self.folder / machine / name).write_text(text)

    def send(self, machine: str, path: str, to: str) -> None:
        source, target = self.folder / machine / path, self.folder / to / Path(path).name
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    made = Machines(tmp_path)
    yield made
    for process in made.started:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def provisioned(machines: Machines) -> None:
    """Steps 1 to 3 of the page."""
    asked = {site: on_the_page("bash", site)[0] for site in ("north", "south")}
    for site, command in asked.items():
        machines.run(site, command)
        machines.send(site, f"kit/{site}.join.json", "authority")
    machines.write("authority", on_the_page("toml", "authority")[0])
    said = machines.run("authority", on_the_page("bash", "authority")[0])
    authority = re.findall(r"^authority ((?:[0-9a-f]{8} ?){8})", said, re.MULTILINE)[0].strip()
    machines.send("authority", "hospitals/server", "server")
    for site in ("north", "south"):
        machines.send("authority", "hospitals/roster.json", site)
        accepted = machines.run(site, on_the_page("bash", site)[1], "--authority", authority)
        assert f"this site is {site}" in accepted


def test_the_page_leads_from_keys_to_a_model(machines):
    provisioned(machines)
    machines.write("server", on_the_page("toml", "server")[0], "triage.toml")
    server = machines.start("server", on_the_page("bash", "server")[0])
    clients = [machines.start(site, on_the_page("bash", site)[2]) for site in ("north", "south")]
    assert server.wait(600) == 0, machines.said("server")
    assert [client.wait(60) for client in clients] == [0, 0], machines.said("north")
    run = machines.folder / "server" / "triage"
    assert (run / "model.pt").stat().st_size > 0
    summary = json.loads((run / "summary.json").read_text())
    assert summary["status"] == "completed"
    keys = [path for path in machines.folder.rglob("*.key") if path.stat().st_mode & 0o077]
    assert keys == []
    assert not list((machines.folder / "server").rglob("authority.key"))


@pytest.mark.slow  # in one process: test_serving.py and tests/federation/link
def test_a_site_that_is_revoked_while_the_server_runs_is_refused(machines):
    provisioned(machines)
    machines.write("server", on_the_page("toml", "server")[0], "triage.toml")
    # the server waits for two sites, and so goes on to serve
    machines.start("server", on_the_page("bash", "server")[0])
    south = machines.start("south", on_the_page("bash", "south")[2])

    def wait_until(machine, words):
        wait_for(lambda: words in machines.said(machine), said=lambda: machines.said(machine))

    wait_until("south", "joined the server")
    machines.write("authority", on_the_page("toml", "authority")[0].replace(', "south.join.json"', ""))
    machines.run("authority", on_the_page("bash", "authority")[0])
    old = (machines.folder / "server/server/roster.json").read_bytes()
    machines.send("authority", "hospitals/roster.json", "server")
    machines.run("server", on_the_page("bash", "server-revoking")[0])
    wait_until("south", "not a site of this federation")
    assert south.poll() is None or south.returncode != 0
    wait_until("server", "0 of 2 sites are connected")
    # the kit of before, put back by hand: its serial was seen
    (machines.folder / "server/server/roster.json").write_bytes(old)
    log = machines.folder / "server/triage/logs"
    older = "is older than 2"
    wait_for(lambda: any(older in file.read_text(errors="replace") for file in log.rglob("*.log")))
    time.sleep(1)  # for a site that would be let in
    assert machines.said("south").count("joined the server") == 1
