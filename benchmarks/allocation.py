"""What random allocation costs beside Poisson sampling, and PLD_accounting's bounds where it is installed.

python -m benchmarks.allocation             # seconds
python -m benchmarks.allocation --theirs    # pip install PLD_accounting; half an hour without numba
"""

import argparse
import time
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from benchmarks.markdown import table
from benchmarks.options import Report, common_parser, publish
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.records import Entry

DELTA = 1e-5
SETTINGS = ((1.545, 11, 9), (1.5, 3, 8), (0.7, 60, 1), (1.0, 117, 10), (2.464, 29, 20))


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    publish(run(options), options)


def parser() -> argparse.ArgumentParser:
    parser = common_parser("benchmarks.allocation", __doc__)
    parser.add_argument("--theirs", action="store_true", help="compare with PLD_accounting's bounds")
    return parser


def run(options: argparse.Namespace) -> Report:
    compute_epsilon([Entry(0.5, 1.0, 2, pass_steps=2)], DELTA)  # imports what is needed
    found = [costs(*setting, theirs=options.theirs) for setting in SETTINGS]
    name = f"PLD_accounting {version('PLD_accounting')}" if options.theirs else "PLD_accounting"
    headings = ("sigma; steps a pass; passes", "Poisson", "allocation", name, "seconds")
    rows = [
        (
            one["setting"],
            f"{one['poisson']:.3f}",
            f"{one['allocation']:.3f}",
            one["theirs"],
            f"{one['seconds']:.1f}",
        )
        for one in found
    ]
    return Report(table(headings, rows, left=1), {"delta": DELTA, "rows": found})


def costs(sigma: float, steps: int, passes: int, *, theirs: bool) -> dict[str, Any]:
    """Both epsilons, and how long that of allocation took. theirs: their lower and upper bound as well."""
    poisson = compute_epsilon([Entry(1 / steps, sigma, steps * passes)], DELTA)
    began = time.perf_counter()
    allocation = compute_epsilon([Entry(1 / steps, sigma, steps * passes, pass_steps=steps)], DELTA)
    seconds, bounds = time.perf_counter() - began, "-"
    if theirs:
        from PLD_accounting.random_allocation_api import gaussian_allocation_epsilon_range

        most, least = gaussian_allocation_epsilon_range(
            delta=DELTA, sigma=sigma, num_steps=steps, num_epochs=passes, epsilon_accuracy=0.02
        )
        bounds = f"{least:.3f} to {most:.3f}"
    return {
        "setting": f"{sigma:g}; {steps}; {passes}", "poisson": poisson, "allocation": allocation,
        "theirs": bounds, "seconds": seconds,
    }  # fmt: skip


if __name__ == "__main__":
    main()
