"""The machines of a soak: a server and its clients, and what can happen to each."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.soak.cable import Cable
from fl_dp.config.client import ClientConfig
from fl_dp.kits.loopback import loopback_site
from fl_dp.launch.client_processes import ClientStart
from fl_dp.launch.clients import LEDGER, write_client_file
from fl_dp.launch.processes.environment import child_environment

_DISK_MIB = 4


@dataclass
class Server:
    """The server, on `port`. words: of its command line."""

    folder: Path
    port: int
    words: tuple[str, ...]
    process: "subprocess.Popen[bytes] | None" = None

    def start(self, *, resumed: bool = False) -> None:
        words = ["--resume", "out"] if resumed else ["--out", "out", *self.words]
        command = [sys.executable, "-P", "-m", "fl_dp.cli.main", "server"]
        env = {**child_environment(self.folder, threads=1), "XDG_STATE_HOME": str(self.folder / "state")}
        with (self.folder / "server.txt").open("ab") as console:
            self.process = subprocess.Popen(
                [*command, "--address", f"127.0.0.1:{self.port}", *words],
                cwd=self.folder, env=env, stdout=console, stderr=console, start_new_session=True,
            )  # fmt: skip

    @property
    def keys(self) -> Path:
        return self.folder / "state" / "fl-dp" / "loopback" / str(self.port)

    def kill(self) -> None:
        assert self.process is not None
        end(self.process)

    def rounds(self) -> list[dict[str, Any]]:
        file = self.folder / "out" / "rounds.jsonl"
        if not file.exists():
            return []
        return [json.loads(line) for line in file.read_text().splitlines() if line.endswith("}")]


@dataclass
class Client:
    """A client at the end of a cable, with its ledger on a disk of its own where that may be mounted."""

    name: str
    part: int
    parts: int
    folder: Path
    server: Server
    epsilon: float
    cable: Cable = field(init=False)
    process: "subprocess.Popen[bytes] | None" = None
    has_disk: bool = False

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.cable = Cable(self.server.port)
        self.disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MIB}m", "tmpfs", str(self.disk)]
        self.has_disk = subprocess.run(mount, check=False, capture_output=True).returncode == 0

    @property
    def disk(self) -> Path:
        return self.folder / "disk"

    @property
    def ledger(self) -> Path:
        return self.disk / LEDGER

    @property
    def log(self) -> Path:
        return self.folder / "steps.jsonl"

    def start(self) -> None:
        config = ClientConfig(
            client=self.name, ledger=str(self.ledger), epsilon=self.epsilon, data="digits",
            partition_id=self.part, num_partitions=self.parts,
        )  # fmt: skip
        start = ClientStart(
            name=self.name,
            settings=str(write_client_file(config, self.folder / "client.toml")),
            kit=str(loopback_site(self.server.keys, self.name).folder),
            server=f"127.0.0.1:{self.cable.port}",
            log=str(self.folder / "client.log"),
            events=str(self.folder / "events.jsonl"),
        )
        starts = self.folder / "starts.json"
        starts.write_text(json.dumps([asdict(start)]))
        command = [sys.executable, "-P", "-m", "benchmarks.soak.client", str(starts), str(self.log)]
        env = {**child_environment(self.folder, threads=1), "PYTHONPATH": os.getcwd()}
        with (self.folder / "console.txt").open("ab") as console:
            self.process = subprocess.Popen(
                command, env=env, stdout=console, stderr=console, start_new_session=True
            )

    def kill(self) -> None:
        assert self.process is not None
        end(self.process)

    def fill_disk(self) -> None:
        """Write until nothing fits any more."""
        with suppress(OSError), (self.disk / "filler").open("wb", buffering=0) as file:
            while True:
                file.write(b"\0" * 4096)

    def free_disk(self) -> None:
        (self.disk / "filler").unlink(missing_ok=True)

    def close(self) -> None:
        if self.process is not None:
            end(self.process)
        if self.has_disk:
            saved = self.folder / "kept"
            saved.mkdir()
            for file in self.disk.glob(f"{LEDGER}*"):
                (saved / file.name).write_bytes(file.read_bytes())
            subprocess.run(["umount", str(self.disk)], check=False, capture_output=True)


def end(process: "subprocess.Popen[bytes]") -> None:
    """SIGKILL for the whole process group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
