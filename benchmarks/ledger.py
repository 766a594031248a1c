"""Ledger operations a second, on this disk, with a number of rounds in the ledger already.

python -m benchmarks.ledger [ROUNDS ...]
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.event_log import EventLog
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.records import Entry

MECHANISM = (0.01, 1.0)  # sample rate, noise multiplier


class _Endless(Budget):
    """Without an end, and without an accountant: what an epsilon costs is measured elsewhere."""

    def steps_that_fit(self, *arguments: object, **options: object) -> int:
        return 1


def ledger_rates(folder: Path, rounds: int, repeat: int = 20) -> dict[str, float]:
    """Operations a second on a ledger of `rounds` rounds, made in `folder`.

    open: open and close it, which verifies every entry; spent: what a data set has paid for, in an open one;
    round: reserve and commit in an open one, each of them on the disk when it returns; message: all of it,
    as a client does that was started for one message.
    """
    path, budget = folder / f"ledger-{rounds}.sqlite", _Endless(1.0, 1e-5, "rdp")
    with Ledger.open(path) as ledger:
        ledger.register("data", "fingerprint", 1000)
    _fill(path, rounds)
    with Ledger.open(path) as ledger:

        def pay(ledger: Ledger, run: str, number: int) -> None:
            ledger.commit(ledger.reserve("data", run, number, Entry(*MECHANISM, 1), budget))

        def message(number: int) -> None:
            with Ledger.open(path) as opened:
                pay(opened, "message", number)

        return {
            "open": _rate(lambda _: Ledger.open(path).close(), repeat),
            "spent": _rate(lambda _: ledger.spent("data"), repeat),
            "round": _rate(lambda number: pay(ledger, "timed", number), repeat),
            "message": _rate(message, repeat),
        }


def _fill(path: Path, rounds: int) -> None:
    """Enter as many rounds as `Ledger.reserve` and `Ledger.commit` would, in one transaction."""
    rate, noise = MECHANISM
    common = {"time": "2026-01-01T00:00:00+00:00", "dataset": "data"}
    wall = {"epsilon": 1.0, "delta": 1e-5, "accountant": "rdp"}
    mechanism = {"sample_rate": rate, "noise_multiplier": noise, "steps": 1}
    log = EventLog.open(path, create=False)
    with log.writing():
        log.new_events()
        for number in range(rounds):
            taken = {"kind": "reserve", "run": "before", "round": number, "budget": wall}
            reserved = log.append({**taken, **common, **mechanism})
            log.append({"kind": "commit", "reserved": reserved.id, **common})
    log.close()


def _rate(operation: Callable[[int], object], repeat: int) -> float:
    start = time.perf_counter()
    for number in range(repeat):
        operation(number)
    return repeat / (time.perf_counter() - start)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for rounds in map(int, sys.argv[1:] or ("10", "100", "1000")):
            rates = ledger_rates(Path(folder), rounds)
            print(f"{rounds:>6} rounds: " + ", ".join(f"{name} {rate:.0f}/s" for name, rate in rates.items()))


if __name__ == "__main__":
    main()
