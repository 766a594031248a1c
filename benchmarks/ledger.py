"""Ledger operations a second, on this disk, with a number of rounds in the ledger already.

python -m benchmarks.ledger [ROUNDS ...]
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.event_log import EventLog
from fl_dp.accounting.ledger import Ledger

MECHANISM = (0.01, 1.0)  # sample rate, noise multiplier


class _Endless(Budget):
    """Without an end, and without an accountant: what an epsilon costs is measured elsewhere."""

    def steps_that_fit(self, *arguments: object, **options: object) -> int:
        return 1


def ledger_rates(folder: Path, rounds: int, repeat: int = 20) -> dict[str, float]:
    """Operations a second on a ledger of `rounds` rounds, made in `folder`; all of them verify every entry.

    open: open and close it; spent: what a data set has paid for; round: reserve and commit, each of them on
    the disk when it returns.
    """
    path, budget = folder / f"ledger-{rounds}.sqlite", _Endless(1.0, 1e-5, "rdp")
    with Ledger.open(path) as ledger:
        ledger.register("data", "fingerprint", 1000)
    _fill(path, rounds)
    with Ledger.open(path) as ledger:
        return {
            "open": _rate(lambda _: Ledger.open(path).close(), repeat),
            "spent": _rate(lambda _: ledger.spent("data"), repeat),
            "round": _rate(
                lambda i: ledger.commit(ledger.reserve("data", "timed", i, MECHANISM, 1, budget)), repeat
            ),
        }


def _fill(path: Path, rounds: int) -> None:
    """Enter as many rounds as `Ledger.reserve` and `Ledger.commit` would, in one transaction."""
    rate, noise = MECHANISM
    common = {"time": "2026-01-01T00:00:00+00:00", "dataset": "data"}
    wall = {"epsilon": 1.0, "delta": 1e-5, "accountant": "rdp"}
    mechanism = {"sample_rate": rate, "noise_multiplier": noise, "steps": 1}
    log = EventLog.open(path, create=False)
    with log.writing():
        for number in range(rounds):
            taken = {"kind": "reserve", "run": "before", "round": number, "budget": wall}
            reserved = log.append({**taken, **common, **mechanism})
            log.append({"kind": "commit", "reserved": reserved, **common})
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
