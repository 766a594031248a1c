"""Real processes: how long a run takes from start to end, a round, and what a round takes beside its steps.

    python -m benchmarks.deployment --data-root DIR [--repeats 3]

The first two are `run.sh`'s own command on digits. The third is ten clients of Fashion-MNIST, a thread each,
all in every round: (seconds of a round x cores - processor seconds of all steps) / clients, so that an idle
core counts as well. The fourth is a round from a client's SIGKILL, of its whole process group, to its end.
"""

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.options import say
from benchmarks.soak.machines import Server
from fl_dp.config.client import ClientConfig
from fl_dp.kits.loopback import loopback_site
from fl_dp.launch.client_processes import ClientStart
from fl_dp.launch.clients import write_client_file
from fl_dp.launch.environment import child_environment, cores

_FASHION = {
    "data": "fashion_mnist", "model": "tanh-cnn", "clients": 10, "min-clients": 10, "fit-clients": 10,
    "rounds": 5, "expected-batch-size": 512, "physical-batch-size": 256, "learning-rate": 8.0,
    "local-epochs": 1, "max-grad-norm": 0.1, "epsilon": 8.0, "evaluate-every": 0,
}  # fmt: skip
_KILLED = {
    "rounds": 1000,
    "clients": 2,
    "min-clients": 1,
    "min-updates": 1,
    "noise-multiplier": 3.0,
    "epsilon": 200.0,
}
_OF_DATA = ("data", "model", "data-root")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.deployment")
    parser.add_argument("--data-root", help="folder with FashionMNIST; without it that part is left out")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    whole = [started_to_ended() for _ in range(options.repeats)]
    say(f"run.sh, start to end: {spread([seconds for seconds, _ in whole])}")
    say(
        f"a round on digits after the first: {spread([later for _, rounds in whole for later in rounds[1:]])}"
    )
    if options.data_root:
        settings = {**_FASHION, "data-root": str(Path(options.data_root).absolute())}
        beside = [beside_training(settings) for _ in range(options.repeats)]
        say(f"seconds beside training, a client and round: {spread([one for run in beside for one in run])}")
    kills = [after_a_kill() for _ in range(options.repeats)]
    say(f"a round after a client's SIGKILL: {spread(kills)}")


def started_to_ended() -> tuple[float, list[float]]:
    """Seconds of the default run, and of each of its rounds."""
    with TemporaryDirectory() as folder:
        begun = time.monotonic()
        command = [sys.executable, "-P", "-m", "fl_dp.cli", "--out", f"{folder}/out"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = time.monotonic() - begun
        return seconds, [line["seconds"] for line in lines_of(Path(folder) / "out" / "rounds.jsonl")]


def beside_training(settings: dict[str, Any]) -> list[float]:
    """Seconds that each round but the first has taken a client beside its steps."""
    with TemporaryDirectory() as folder:
        server = served(Path(folder), settings)
        clients = launched(server, settings)
        try:
            assert server.process is not None
            if server.process.wait(3000):
                sys.exit((Path(folder) / "server.txt").read_text())
        finally:
            stop(server, clients)
        number = settings["clients"]
        steps = [line["seconds"] for line in lines_of(Path(folder) / "steps.jsonl")]
        rounds = [line["seconds"] for line in server.rounds()]
        by_round = [sum(steps[start : start + number]) for start in range(0, len(steps), number)]
        return [
            (seconds * cores() - trained) / number
            for seconds, trained in list(zip(rounds, by_round, strict=True))[1:]
        ]


def after_a_kill() -> float:
    """Seconds from a SIGKILL in the middle of the run to the end of the round that it fell into."""
    with TemporaryDirectory() as folder:
        server = served(Path(folder), _KILLED)
        clients = launched(server, _KILLED)
        try:
            while len(server.rounds()) < 5:
                time.sleep(0.05)
            events = lines_of(Path(folder) / "events.jsonl")
            victim = next(event["pid"] for event in events if event["client"] == "site0")
            before = len(server.rounds())
            begun = time.monotonic()
            os.killpg(victim, signal.SIGKILL)
            while all(line["clients"]["site0"]["status"] != "failed" for line in server.rounds()[before:]):
                time.sleep(0.02)
            return time.monotonic() - begun
        finally:
            stop(server, clients)


def served(folder: Path, settings: dict[str, Any]) -> Server:
    """A server that is being started; its keys are there."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = tuple(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))
    server = Server(folder, port=port, words=words, has_clock=False)
    server.start()
    while not (server.keys / "roster.json").exists():
        time.sleep(0.05)
    return server


def stop(server: Server, clients: "subprocess.Popen[bytes]") -> None:
    """End all that is at work in the folder, so that it can be removed."""
    server.kill()
    with suppress(ProcessLookupError):
        os.killpg(clients.pid, signal.SIGKILL)
    clients.wait()
    server.disk.close()


def launched(server: Server, settings: dict[str, Any]) -> "subprocess.Popen[bytes]":
    """All clients, forked from one process, as run.sh starts them."""
    folder, number = server.folder, int(settings["clients"])
    of_data = {key.replace("-", "_"): settings[key] for key in _OF_DATA if key in settings}
    starts = []
    for part in range(number):
        name = f"site{part}"
        config = ClientConfig(
            client=name, ledger=str(folder / "ledger.sqlite"), epsilon=float(settings["epsilon"]),
            partition_id=part, num_partitions=number, physical_batch_size=256, **of_data,
        )  # fmt: skip
        starts.append(
            ClientStart(
                name=name,
                settings=str(write_client_file(config, folder / f"{name}.toml")),
                kit=str(loopback_site(server.keys, name).folder),
                server=f"127.0.0.1:{server.port}",
                log=str(folder / f"{name}.log"),
                events=str(folder / "events.jsonl"),
            )
        )
    file = folder / "starts.json"
    file.write_text(json.dumps([asdict(start) for start in starts]))
    command = [
        sys.executable,
        "-P",
        "-m",
        "benchmarks.deployment_client",
        str(file),
        str(folder / "steps.jsonl"),
    ]
    env = {**child_environment(folder, threads=1), "PYTHONPATH": os.getcwd(), "OMP_NUM_THREADS": "1"}
    with (folder / "console.txt").open("ab") as console:
        return subprocess.Popen(command, env=env, stdout=console, stderr=console, start_new_session=True)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def spread(values: Sequence[float]) -> str:
    middle = statistics.median(values)
    return f"{middle:.2f} s (from {min(values):.2f} to {max(values):.2f}, {len(values)} of them)"


if __name__ == "__main__":
    main()
