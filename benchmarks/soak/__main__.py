"""200 rounds of four clients, while something fails every few seconds.

    python -m benchmarks.soak --out DIR [--rounds 200] [--seed 0]

Faults: SIGKILL of the server (which is then resumed) or of a client's process group (which is started again),
a full disk under a ledger for some seconds (where tmpfs may be mounted), a cut cable for some seconds.
Afterwards every epsilon is held against a log of steps that each client wrote for itself,
`benchmarks/soak/client.py`. What is shown may be more than was taken where a round was paid for and not
begun, or not confirmed; never less.
"""

import argparse
import json
import random
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.options import say
from benchmarks.soak.machines import Client, Server
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.events import merge
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.records import Entry

CLIENTS, NOISE, EPSILON, DELTA = 4, 3.0, 60.0, 1e-5
BETWEEN = (4.0, 12.0)  # seconds from one fault to the next
SHORT, LONG = (
    (2.0, 8.0),
    (14.0, 24.0),
)  # seconds that a cable is cut: less, or more, than a site may be silent


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak")
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="of the faults")
    parser.add_argument("--seconds", type=float, default=3000, help="after which it is given up")
    options = parser.parse_args()
    options.out.mkdir(parents=True)
    chance = random.Random(options.seed)
    server, clients = started(options.out.absolute(), options.rounds)
    counts: dict[str, int] = {}
    begun = time.monotonic()
    try:
        while server.process is not None and server.process.poll() is None:
            if time.monotonic() - begun > options.seconds:
                say(f"given up after {options.seconds:.0f} s, in round {len(server.rounds())}")
                break
            time.sleep(chance.uniform(*BETWEEN))
            name = one_fault(chance, server, clients)
            counts[name] = counts.get(name, 0) + 1
        code = server.process.poll() if server.process is not None else None
    finally:
        if server.process is not None and server.process.poll() is None:
            server.kill()
        for client in clients:
            client.close()
    sys.exit(report(server, clients, counts, code, time.monotonic() - begun))


def started(folder: Path, rounds: int) -> tuple[Server, Sequence[Client]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "rounds": rounds, "clients": CLIENTS, "min-clients": 2, "fit-clients": CLIENTS,
        "noise-multiplier": NOISE, "epsilon": EPSILON, "round-timeout": 120, "evaluate-every": 20,
    }  # fmt: skip
    words = tuple(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))
    server = Server(folder, port, words)
    server.start()
    while not (server.keys / "roster.json").exists():
        time.sleep(0.1)
    clients = [
        Client(f"site{part}", part, CLIENTS, folder / f"site{part}", server, EPSILON)
        for part in range(CLIENTS)
    ]
    for client in clients:
        client.start()
    while len(server.rounds()) < 2:
        assert server.process is not None
        if server.process.poll() is not None:
            sys.exit((folder / "server.txt").read_text())
        time.sleep(0.2)
    return server, clients


def one_fault(chance: random.Random, server: Server, clients: Sequence[Client]) -> str:
    """Let something fail, and mend it; its name."""
    client = chance.choice(clients)
    kind = chance.choice(["server killed", "client killed", "disk full", "cable cut", "cable cut for long"])
    assert server.process is not None
    if server.process.poll() is not None:
        return "none: it was over"
    say(f"round {len(server.rounds())}: {kind}" + ("" if kind.startswith("server") else f" ({client.name})"))
    if kind == "server killed":
        server.kill()
        time.sleep(chance.uniform(0, 4))
        server.start(resumed=True)
    elif kind == "client killed":
        client.kill()
        time.sleep(chance.uniform(0, 4))
        client.start()
    elif kind == "disk full":
        if not client.has_disk:
            return "none: no disk of its own"
        client.fill_disk()
        time.sleep(chance.uniform(*SHORT))
        client.free_disk()
    else:
        client.cable.cut()
        time.sleep(chance.uniform(*(LONG if kind.endswith("long") else SHORT)))
        client.cable.mend()
    return kind


def report(
    server: Server, clients: Sequence[Client], counts: dict[str, int], code: int | None, seconds: float
) -> int:
    """Print what became of it; 0 if every epsilon is right and the run has ended."""
    lines = server.rounds()
    averaged = sum(
        any(client["status"] == "trained" for client in line["clients"].values()) for line in lines
    )
    say(f"{len(lines)} rounds, {averaged} averaged, in {seconds:.0f} s; exit code {code}; faults {counts}")
    sound = code == 0
    for client in clients:
        shown = lines[-1]["clients"][client.name]
        ledger = epsilon_of_ledger(client)
        taken = epsilon_of_log(client)
        right = taken <= ledger + 1e-9 and ledger <= shown["epsilon"] + 1e-9
        if shown["status"] == "trained":
            right &= abs(shown["epsilon"] - ledger) < 1e-6
        states = [line["clients"].get(client.name, {}).get("status", "not there") for line in lines]
        sound &= right
        say(
            f"{client.name}: epsilon shown {shown['epsilon']:.6f}, by its ledger {ledger:.6f}, of the steps "
            f"that it took {taken:.6f}: {'right' if right else 'WRONG'}; "
            f"trained in {states.count('trained')}, last {states[-5:]}"
        )
    return 0 if sound else 1


def epsilon_of_ledger(client: Client) -> float:
    folder = client.folder / "kept" if client.has_disk else client.disk
    with Ledger.open(folder / client.ledger.name) as ledger:
        (account,) = ledger.accounts()
        return compute_epsilon(ledger.spent(account.dataset), DELTA)


def epsilon_of_log(client: Client) -> float:
    lines = [json.loads(line) for line in client.log.read_text().splitlines()]
    return compute_epsilon(merge(Entry(line["sample_rate"], NOISE, line["steps"]) for line in lines), DELTA)


if __name__ == "__main__":
    main()
