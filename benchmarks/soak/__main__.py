"""200 rounds of five clients, while strangers hold the server's port and something fails every few seconds.

    python -m benchmarks.soak --out DIR [--rounds 200] [--seed 0]

All the time: waves of 10,000 strangers from a thousand addresses, from one of which two sites join; cables
that are slow and lose what passes; a site that answers each round too late, and one that answers nothing.

Faults: SIGKILL of the server (which is then resumed) or of a client's process group (which is started
again), a client that is stopped, a full disk (where tmpfs may be mounted) under a ledger or the run's folder,
a cut cable, a clock that is set by a minute or two (where libfaketime is installed). The server is killed,
and its clock set, in the first rounds alone: libfaketime makes a server of several threads many times slower.
Afterwards its memory is watched, and that of the last site, which is neither killed nor stopped.

Afterwards every epsilon is held against a log of steps that each client wrote for itself,
`benchmarks/soak/client.py`, every round against its grace, and the run is verified.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.options import say
from benchmarks.soak import clock
from benchmarks.soak.machines import Client, Machine, Server, started
from benchmarks.soak.memory import Memory
from benchmarks.soak.strangers import SHARED
from benchmarks.soak.verdict import NOISE, epsilons_are_right, grace_was_kept
from fl_dp.kits.provision import loopback_site

CLIENTS, EPSILON = 5, 60.0
SILENT = 45.0  # seconds, more than any grace here
BETWEEN = (3.0, 9.0)  # seconds from one fault to the next
SHORT, LONG = (2.0, 8.0), (14.0, 24.0)  # seconds of a fault: less, or more, than a site may be silent
KILLED = 0.1  # of the rounds, after which the server lives on
FAULTS = (
    "server killed",
    "server clock set",
    "server's disk full",
    "client killed",
    "client stopped",
    "disk full",
    "clock set",
    "cable cut",
    "cable cut for long",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak")
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="of the faults")
    parser.add_argument("--seconds", type=float, default=3000, help="after which it is given up")
    options = parser.parse_args()
    options.out.mkdir(parents=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left behind
    folder, chance = options.out.absolute(), random.Random(options.seed)
    if clock.library() is None:
        say("libfaketime is not installed: no clock is set")
    machines: list[Machine] = []
    counts: Counter[str] = Counter()
    try:
        server, clients = all_started(folder, options.rounds, chance, machines)
        memory = Memory(server, {"server": server, clients[-1].name: clients[-1]})
        begun = time.monotonic()
        while server.process is not None and server.process.poll() is None:
            if time.monotonic() - begun > options.seconds:
                say(f"given up after {options.seconds:.0f} s, in round {len(server.rounds())}")
                break
            time.sleep(chance.uniform(*BETWEEN))
            counts[one_fault(chance, server, clients, options.rounds)] += 1
        code = server.process.poll() if server.process is not None else None
    finally:
        for machine in machines:
            machine.end()
    lines = server.rounds()
    averaged = sum(any(one["status"] == "trained" for one in line["clients"].values()) for line in lines)
    seconds = time.monotonic() - begun
    say(
        f"{len(lines)} rounds, {averaged} averaged, in {seconds:.0f} s; exit code {code}; "
        f"faults {dict(counts)}"
    )
    sound = epsilons_are_right(lines, clients)
    sound &= grace_was_kept(server, lines, folder / "beside_grace.csv")
    say(f"strangers: {json.loads((folder / 'strangers.json').read_text())}")
    say(f"server: at most {memory.most_files} files open")
    for name in memory.machines:
        say(memory.words(name))
    sys.exit(0 if sound and verified(server, clients) and code == 0 else 1)


def all_started(
    folder: Path, rounds: int, chance: random.Random, machines: list[Machine]
) -> tuple[Server, Sequence[Client]]:
    """The server and its clients, once a round is over. machines: gets all that was started, even before."""
    settings = {
        "rounds": rounds,
        "clients": CLIENTS,
        "min-clients": 2,
        "fit-clients": CLIENTS,
        "noise-multiplier": NOISE,
        "epsilon": EPSILON,
        "round-timeout": 120,
    }
    words = tuple(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))
    # a port that nobody is given by chance: who connects to it while nobody serves it would reach itself
    server = Server(folder, port=chance.randrange(20000, 30000), words=words)
    machines.append(server)
    server.start()
    while not (server.keys / "roster.json").exists():
        _check_alive(server)
        time.sleep(0.1)
    log = folder / "others.txt"
    words = str(server.port), str(folder / "strangers.json")
    machines.append(Machine(folder, started("benchmarks.soak.strangers", *words, cwd=folder, console=log)))
    clients = [
        Client(
            folder / f"site{part}",
            name=f"site{part}",
            part=part,
            parts=CLIENTS,
            server=server,
            epsilon=EPSILON,
            source=SHARED if part in (0, CLIENTS - 1) else f"127.2.0.{part}",
            silent=SILENT if part == 1 else 0.0,
        )
        for part in range(CLIENTS)
    ]
    machines += clients
    for client in clients:
        client.start()
    mute = loopback_site(server.keys, "mute").folder, f"127.0.0.1:{server.port}"
    machines.append(Machine(folder, started("benchmarks.soak.client", *mute, cwd=folder, console=log)))
    while len(server.rounds()) < 2:
        _check_alive(server)
        time.sleep(0.2)
    return server, clients


def _check_alive(server: Server) -> None:
    if server.process is None or server.process.poll() is not None:
        sys.exit((server.folder / "server.txt").read_text())


def one_fault(chance: random.Random, server: Server, clients: Sequence[Client], rounds: int) -> str:
    """Let something fail, and mend it; its name."""
    kind, over = chance.choice(FAULTS), len(server.rounds())
    client = chance.choice(clients[:-1] if kind in ("client killed", "client stopped") else clients)
    machine = server if kind.startswith("server") else client
    assert server.process is not None
    if server.process.poll() is not None:
        return "none"
    if server.has_clock and over > KILLED * rounds:
        kind, machine, server.has_clock = "server killed", server, False
    elif kind.startswith("server ") and not server.has_clock:
        return "none"
    wait = chance.uniform(*(LONG if kind.endswith(("long", "stopped")) else SHORT))
    say(f"round {over}: {kind}" + ("" if machine is server else f" ({client.name})") + f", {wait:.1f} s")
    if kind.endswith("killed"):
        machine.kill()
        time.sleep(wait / 2)
        server.start(resumed=True) if machine is server else client.start()
    elif kind.endswith("stopped"):
        machine.signal(signal.SIGSTOP)
        time.sleep(wait)
        machine.signal(signal.SIGCONT)
    elif kind.endswith("full"):
        if not machine.disk.is_own:
            return "none: no disk of its own"
        machine.disk.fill()
        time.sleep(wait)
        machine.disk.free()
    elif kind.endswith("set"):
        if clock.library() is None:
            return "none: no libfaketime"
        machine.clock.jump(chance)
    else:
        client.cable.cut()
        time.sleep(wait)
        client.cable.mend()
    return kind


def verified(server: Server, clients: Sequence[Client]) -> bool:
    """What `fl-dp verify` says of the run's folder and the ledgers."""
    ledgers = [word for client in clients for word in ("--ledger", str(client.disk.folder))]
    command = [sys.executable, "-P", "-m", "fl_dp", "verify", str(server.out), *ledgers]
    told = subprocess.run(command, check=False, capture_output=True, text=True)
    say(f"fl-dp verify: exit code {told.returncode}")
    if told.returncode:
        say(told.stdout + told.stderr)
    return told.returncode == 0


if __name__ == "__main__":
    main()
