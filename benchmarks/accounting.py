"""Times of accounting: a round of 1,000 clients, calibration, and what a ledger does in a second.

    python -m benchmarks.accounting --json runs/accounting.json

On one core; nothing that is computed for one line serves another.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from benchmarks.options import say, write
from fl_dp.accounting import epsilon
from fl_dp.accounting.accountants import pld, rdp
from fl_dp.accounting.budget import Budget
from fl_dp.accounting.calibration import calibrate_noise, steps_that_fit
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.records import Entry

CLIENTS, ROUNDS = 1000, 20
DELTA = 1e-5
CACHES = (epsilon._compute, pld._entry_pld, pld._step_pld, rdp._curve)

COMPARED = ("pld", "rdp")

Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Timing:
    """seconds: of one repetition, the least of several; cpu_seconds: what the process itself computed."""

    what: str
    seconds: float
    cpu_seconds: float


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    import dp_accounting.pld.privacy_loss_distribution  # noqa: F401  its import takes a second, and is no part

    timings = [
        *(measure(f"round of {CLIENTS} clients, {what}", work, 3) for what, work in federation().items()),
        *(measure(f"calibration, {what}", work, 3) for what, work in calibrations().items()),
        *(measure(f"steps that fit, {what}", work, 3) for what, work in fitting().items()),
        *ledger_timings(options.operations),
    ]
    say(table(timings))
    if options.json:
        write(options.json, json.dumps([asdict(timing) for timing in timings], indent=1))


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accounting", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--operations", type=int, default=50, help="of each kind on the ledger")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser


def federation() -> dict[str, Work]:
    """All clients' epsilons, as a round's report needs them."""
    same = [[Entry(0.01, 1.0, 100)] * ROUNDS for _ in range(CLIENTS)]
    sizes = [[Entry(64 / (2000 + client), 1.0, 40)] * ROUNDS for client in range(CLIENTS)]
    noises = [
        [Entry(64 / (2000 + client), 1.0 + 0.1 * (number % 4), 40) for number in range(ROUNDS)]
        for client in range(CLIENTS)
    ]

    def epsilons(histories: list[list[Entry]], accountant: str) -> Work:
        return lambda: [epsilon.compute_epsilon(history, DELTA, accountant) for history in histories]

    return {
        "all of one history, pld": epsilons(same, "pld"),
        "all of one history, rdp": epsilons(same, "rdp"),
        "each of its own size, rdp": epsilons(sizes, "rdp"),
        "each of its own size, 4 noises, rdp": epsilons(noises, "rdp"),
    }


def calibrations() -> dict[str, Work]:
    plans = [(1e-4, 50_000), (5e-4, 10_000), (1e-3, 5_000), (0.01, 1000), (0.0256, 7840)]
    return {
        f"rate {rate:g}, {steps} steps, epsilon 3, {by}": partial(
            calibrate_noise, rate, steps, 3.0, DELTA, accountant=by
        )
        for by in COMPARED
        for rate, steps in plans
    }


def fitting() -> dict[str, Work]:
    return {
        f"rate {rate:g}, {by}": partial(steps_that_fit, Entry(rate, 0.8, 5000), 2.0, DELTA, accountant=by)
        for by in COMPARED
        for rate in (1e-3, 0.01)
    }


def ledger_timings(operations: int) -> list[Timing]:
    """Of a reservation and its commitment, each on disk; the budget is never reached."""
    with tempfile.TemporaryDirectory() as folder, Ledger.open(Path(folder) / "ledger.sqlite") as ledger:
        ledger.register("benchmark", "fingerprint", 10_000)
        budget = Budget(100.0, DELTA, "rdp")

        def pay() -> None:
            for number in range(operations):
                reservation = ledger.reserve("benchmark", "run", number, Entry(0.01, 1.0, 10), budget)
                ledger.commit(reservation)

        timing = measure(f"ledger, {operations} times reserve and commit", pay, 1)
    per = Timing(
        "ledger, one reserve and commit", timing.seconds / operations, timing.cpu_seconds / operations
    )
    return [timing, per]


def measure(what: str, work: Work, repetitions: int) -> Timing:
    """The least of some repetitions, each with empty caches."""
    seen = []
    for _ in range(repetitions):
        for cache in CACHES:
            cache.cache_clear()
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        seen.append((time.perf_counter() - wall, time.process_time() - cpu))
    return Timing(what, *map(min, zip(*seen, strict=True)))


def table(timings: Sequence[Timing]) -> str:
    rows = [f"| {t.what} | {t.seconds:.3f} | {t.cpu_seconds:.3f} |" for t in timings]
    return "\n".join(("| | seconds | CPU seconds |", "|---|---|---|", *rows))


if __name__ == "__main__":
    main()
