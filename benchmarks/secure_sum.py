"""What a secure sum costs beside training: seconds of a client and of the server, bytes of a client.

    OMP_NUM_THREADS=1 python -m benchmarks.secure_sum --json runs/secure_sum.json

A whole attempt in one process and one thread, without a network: each member's stages and all that the server
does, timed apart. A member reads its state and the message first, as a process of its own does. Bytes are of
all fields that a client sends and gets, and of the model that it gets, against a plain round: a float32 model
down and one up. The threshold is the highest that is allowed, K - d.
"""

import argparse
import json
import math
import secrets
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from benchmarks.circumstances import circumstances
from benchmarks.markdown import table
from benchmarks.options import say, write
from fl_dp.federation.secure_sum.limits import Limits
from fl_dp.federation.secure_sum.participant import Participant
from fl_dp.federation.secure_sum.summing import SecureSum
from fl_dp.federation.secure_sum.terms import MODULUS, Head
from fl_dp.kits.keys import SigningKey

ROWS = ((10, 1_000_000, 0), (10, 1_000_000, 1), (100, 100_000, 10))  # clients, numbers, how many drop out
STAGES = ("advertise", "share", "check", "accept", "mask", "confirm", "open")
LIMITS = Limits()
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Row:
    """client: median seconds of a member by stage; server: of all that it does. traffic: of a plain round."""

    clients: int
    numbers: int
    dropped: int
    client: dict[str, float]
    server: float
    unmasking: float
    bytes_down: int
    bytes_up: int
    traffic: float
    state_bytes: int


@dataclass
class Clock:
    """Seconds by what took them, and bytes by member."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    down: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    up: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def time(self, what: str, work: Callable[..., Found], *arguments: Any) -> Found:
        begun = time.perf_counter()
        found = work(*arguments)
        self.seconds[what].append(time.perf_counter() - begun)
        return found


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    rows = [middle([attempt(*row) for _ in range(options.repeat)]) for row in options.rows]
    say(shown(rows))
    if options.json:
        found = {**circumstances("cpu"), "rows": [asdict(row) for row in rows]}
        write(options.json, json.dumps(found, indent=1))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.secure_sum", description=(__doc__ or "").splitlines()[0]
    )
    made.add_argument("--rows", type=_row, nargs="+", default=ROWS, metavar="CLIENTS,NUMBERS,DROPPED")
    made.add_argument("--repeat", type=int, default=3)
    made.add_argument("--json", type=Path, metavar="FILE")
    return made


def _row(text: str) -> tuple[int, int, int]:
    clients, numbers, dropped = map(int, text.split(","))
    return clients, numbers, dropped


def middle(rows: Sequence[Row]) -> Row:
    """The row whose server and clients together took the median time."""
    return sorted(rows, key=lambda row: row.server + sum(row.client.values()))[len(rows) // 2]


class Client:
    """A real client: between its stages it is bytes, and what it is sent it reads first."""

    def __init__(self, key: SigningKey, head: Head, clock: Clock) -> None:
        self._key, self._clock = key, clock
        member, self.advertisement = clock.time("advertise", Participant.begin, head, LIMITS, key)
        self.state = member.to_bytes()

    def answer(self, stage: str, asked: Any, *more: Any) -> Any:
        return self._clock.time(stage, self._answer, stage, asked, more)

    def _answer(self, stage: str, asked: Any, more: Sequence[Any]) -> Any:
        member = Participant.from_bytes(self.state, self._key)
        read = asked if isinstance(asked, np.ndarray) else type(asked).from_fields(asked.to_fields())
        answer = getattr(member, stage)(read, *more)
        self.state = member.to_bytes()
        return answer


def attempt(clients: int, numbers: int, dropped: int) -> Row:
    """One attempt; `dropped` members are gone before they send their vectors."""
    keys = {key.public: key for key in (SigningKey.generate() for _ in range(clients))}
    head, clock = proposal(clients, numbers, dropped), Clock()
    server = SecureSum(head, {site: f"client-{site[:8]}" for site in keys})
    gone, generator = set(sorted(keys)[:dropped]), np.random.default_rng(1)

    def carry(site: str, take: Callable[[str, Any], None], answer: Any, asked: Any) -> None:
        fields = answer.to_fields()
        clock.up[site] += size(fields)
        clock.down[site] += size(asked.to_fields())
        clock.time("server", take, site, fields)

    members = {site: Client(key, head, clock) for site, key in keys.items()}
    for site, member in members.items():
        carry(site, server.take_advertisement, member.advertisement, head)
    terms = clock.time("server", server.terms)
    for site, member in members.items():
        carry(site, server.take_sharing, member.answer("share", terms, LIMITS, keys), terms)
    for site, member in members.items():
        inbox = clock.time("server", server.inbox, site)
        carry(site, server.take_check, member.answer("check", inbox), inbox)
    checks, expected = clock.time("server", server.checks), np.zeros(numbers, np.int64)
    for site, member in members.items():
        if site not in gone:
            member.answer("accept", checks)
            integers = generator.integers(-(2**40), 2**40, numbers)
            expected += integers
            carry(site, server.take_masked, member.answer("mask", integers), checks)
    survivors = clock.time("server", server.survivors)
    for site in server.here():
        carry(site, server.take_confirmation, members[site].answer("confirm", survivors), survivors)
    state_bytes = max(len(member.state) for member in members.values())
    confirmations = clock.time("server", server.confirmations)
    for site in server.here():
        carry(site, server.take_opening, members[site].answer("open", confirmations), confirmations)
    total = clock.time("unmasking", server.total)
    if not (total == expected).all():
        raise SystemExit("The opened sum is not the plain one.")
    return row_of(clock, head, dropped, state_bytes)


def proposal(clients: int, numbers: int, dropped: int) -> Head:
    spacing, dropouts = 2.0**-20, max(dropped, 1)
    sensitivity = 1 + math.sqrt(numbers) * spacing
    return Head(
        "benchmark", 1, secrets.token_hex(16), "0" * 64, "0" * 64, 1.0, sensitivity, 1.0, spacing, 3, numbers,
        sensitivity, MODULUS, "discrete-gaussian", 0.01, 1, clients, dropouts, 1, clients - dropouts,
    )  # fmt: skip


def row_of(clock: Clock, head: Head, dropped: int, state_bytes: int) -> Row:
    client = {stage: statistics.median(clock.seconds[stage]) for stage in STAGES}
    unmasking = sum(clock.seconds["unmasking"])
    down, up = max(clock.down.values()) + 4 * head.numbers, max(clock.up.values())
    plain = 2 * 4 * head.numbers
    return Row(
        head.clients, head.numbers, dropped, client, sum(clock.seconds["server"]) + unmasking, unmasking,
        down, up, (down + up) / plain, state_bytes,
    )  # fmt: skip


def size(fields: dict[str, Any]) -> int:
    """Bytes of all values: 8 of a number, as they travel."""
    return sum(
        sum(
            len(one) if isinstance(one, str | bytes) else 8
            for one in (found if isinstance(found, list) else [found])
        )
        for found in fields.values()
    )


def shown(rows: Sequence[Row]) -> str:
    heads = [
        *("clients", "numbers", "dropped", *STAGES, "a client, s", "server, s", "of it unmasking"),
        *("down, MB", "up, MB", "of a plain round"),
    ]
    lines = [
        [
            str(row.clients), f"{row.numbers:,}", str(row.dropped),
            *(f"{row.client[stage]:.3f}" for stage in STAGES), f"{sum(row.client.values()):.2f}",
            f"{row.server:.2f}", f"{row.unmasking:.2f}", f"{row.bytes_down / 1e6:.2f}",
            f"{row.bytes_up / 1e6:.2f}", f"{row.traffic:.2f}",
        ]
        for row in rows
    ]  # fmt: skip
    return table(heads, lines, left=0)


if __name__ == "__main__":
    main()
