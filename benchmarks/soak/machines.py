"""The machines of a soak: a server and its clients, and what can happen to each."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.soak.cable import Cable
from benchmarks.soak.clock import Clock, forget
from fl_dp.accounting.ledger.files import LEDGER
from fl_dp.config.client import ClientConfig
from fl_dp.kits.provision import loopback_site
from fl_dp.launch.clients import ClientStart, write_client_file
from fl_dp.launch.processes import child_environment

Process = subprocess.Popen[bytes]
ROOT = Path(__file__).parents[2]


def started(module: str, *words: object, cwd: Path, console: Path, clock: Clock | None = None) -> Process:
    """A process in a group of its own."""
    env = {
        **child_environment(cwd, threads=1),
        "PYTHONPATH": str(ROOT),
        "XDG_STATE_HOME": str(cwd / "state"),
    }
    env |= clock.environment() if clock else {}
    with console.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", module, *map(str, words)],
            cwd=cwd,
            env=env,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )


@dataclass
class Disk:
    """A folder that is a file system of its own, of `mib`, where that may be mounted."""

    folder: Path
    mib: int
    is_own: bool = False

    def __post_init__(self) -> None:
        self.folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={self.mib}m", "tmpfs", str(self.folder)]
        self.is_own = subprocess.run(mount, check=False, capture_output=True).returncode == 0

    def fill(self) -> None:
        """Write until nothing fits any more."""
        with suppress(OSError), (self.folder / "filler").open("wb", buffering=0) as file:
            for size in (2**16, 2**9, 1):
                with suppress(OSError):
                    while True:
                        file.write(b"\0" * size)

    def free(self) -> None:
        (self.folder / "filler").unlink(missing_ok=True)

    def close(self) -> None:
        """What is on it stays, in an ordinary folder."""
        if self.is_own:
            self.free()
            kept = self.folder.with_suffix(".kept")
            shutil.copytree(self.folder, kept)
            subprocess.run(["umount", str(self.folder)], check=True)
            self.folder.rmdir()
            kept.rename(self.folder)
            self.is_own = False


@dataclass
class Machine:
    """A process that may be killed, stopped, and started again."""

    folder: Path
    process: Process | None = None

    def kill(self) -> None:
        """SIGKILL for the whole process group."""
        assert self.process is not None
        self.signal(signal.SIGKILL)
        self.process.wait()
        forget(self.process.pid)

    def end(self) -> None:
        """Kill it, if it was ever started."""
        if self.process is not None:
            self.kill()

    def signal(self, number: int) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    @property
    def kib(self) -> int | None:
        """Of memory that is its own and resident."""
        with suppress(OSError, IndexError):
            pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) if self.process else 0
            return pages * os.sysconf("SC_PAGE_SIZE") // 1024
        return None

    @property
    def files(self) -> int:
        """How many it has open."""
        with suppress(OSError):
            return len(os.listdir(f"/proc/{self.process.pid}/fd")) if self.process else 0
        return 0


@dataclass
class Server(Machine):
    """The server, on `port`. words: of its command line. has_clock: one that can be set."""

    port: int = 0
    words: tuple[str, ...] = ()
    has_clock: bool = True

    def __post_init__(self) -> None:
        self.disk, self.clock = Disk(self.folder / "disk", 48), Clock(self.folder / "clock")
        self.out, self.times = self.disk.folder / "out", self.folder / "times.jsonl"
        self.keys = self.folder / "state" / "fl-dp" / "loopback" / str(self.port)

    def start(self, *, resumed: bool = False) -> None:
        words = ["--resume", self.out] if resumed else ["--out", self.out, *self.words]
        self.process = started(
            "benchmarks.soak.server",
            self.times,
            "server",
            "--address",
            f"127.0.0.1:{self.port}",
            *words,
            cwd=self.folder,
            console=self.folder / "server.txt",
            clock=self.clock if self.has_clock else None,
        )

    def end(self) -> None:
        super().end()
        self.disk.close()

    def rounds(self) -> list[dict[str, Any]]:
        return lines_of(self.out / "rounds.jsonl")


@dataclass
class Client(Machine):
    """A client at the end of a cable, with its ledger on a disk of its own where that may be mounted.

    source: the address that it seems to come from. silent: seconds before each of its rounds.
    """

    name: str = ""
    part: int = 0
    parts: int = 1
    server: Server = field(default_factory=lambda: Server(Path()))
    epsilon: float = 0.0
    source: str = "127.0.0.1"
    silent: float = 0.0

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.cable = Cable(self.server.port, self.source, random.Random(self.part))
        self.disk, self.clock = Disk(self.folder / "disk", 4), Clock(self.folder / "clock")
        self.log, self.events = self.folder / "steps.jsonl", self.folder / "events.jsonl"
        self.ledger = self.disk.folder / LEDGER

    def start(self) -> None:
        config = ClientConfig(
            client=self.name,
            ledger=str(self.ledger),
            epsilon=self.epsilon,
            data="digits",
            partition_id=self.part,
            num_partitions=self.parts,
        )
        start = ClientStart(
            name=self.name,
            settings=str(write_client_file(config, self.folder / "client.toml")),
            kit=str(loopback_site(self.server.keys, self.name).folder),
            server=f"127.0.0.1:{self.cable.port}",
            log=str(self.folder / "client.log"),
            events=str(self.events),
        )
        starts = self.folder / "starts.json"
        starts.write_text(json.dumps([asdict(start)]))
        self.process = started(
            "benchmarks.soak.client",
            starts,
            self.log,
            self.silent,
            cwd=self.folder,
            console=self.folder / "console.txt",
            clock=self.clock,
        )

    def end(self) -> None:
        super().end()
        self.disk.close()


def lines_of(file: Path) -> list[dict[str, Any]]:
    """Of a file of JSON that may be in the middle of a line."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text().splitlines() if line.endswith("}")]
