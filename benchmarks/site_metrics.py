"""How wide the interval of AUROC is from the sites' own test records, beside that without noise.

    python -m benchmarks.site_metrics

Made-up scores of a calibrated model of two classes (AUROC 0.856), one evaluation at evaluate-epsilon 1:
pooled at one site, and at four of the sizes of the example of four hospitals: each with noise of its own, and
in a secure sum in which so many may drop out and one may collude. "half-width": half of the mean interval
that a run reports, where it reports one; "held": how often that held the AUROC of the population (of the
same bins); "none": how often noise leaves no answer. The example itself, with its real records, is measured
by examples/hospitals/measure_sites.py.
"""

import argparse
import math
from collections.abc import Sequence

import numpy as np

from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.accounting.shares import honest_shares
from fl_dp.config.site_metrics import BINS
from fl_dp.engine.noise.grid import noise_grid
from fl_dp.federation.secure_sum.vector import grid_of
from fl_dp.form import Form
from fl_dp.tasks.score_histogram import Layout
from fl_dp.tasks.score_metrics import estimates

SPREAD = 1.5  # of the log-odds; the true AUROC is P(N(spread^2, 2 spread^2) > 0)
HOSPITALS = (104, 89, 45, 16)


def measured(
    sites: Sequence[int], bins: int, delta: float, seeds: int, dropouts: int | None
) -> tuple[float, float, float, float]:
    """Half-width with noise and without, share of intervals that held, and share of those without an answer.

    dropouts: of the secure sum, of which nobody does; None: each site sends its own histogram.
    """
    layout = Layout.of(Form((1,), 2), bins, 1, ())
    multiplier = calibrate_noise(1.0, 1, 1.0, delta)
    each = noise_grid(layout.sensitivity, multiplier, layout.size).deviation
    if dropouts is not None:
        shares = honest_shares(len(sites), dropouts, 1)
        each = grid_of(layout.sensitivity, multiplier, shares, layout.size).share_deviation
    deviation = each * math.sqrt(len(sites))
    truth = _auroc(layout, np.random.default_rng(10**6), 10**6, 0.0)[0]
    rows = []
    for seed in range(seeds):
        generator = np.random.default_rng(seed)
        value, low, high = _auroc(layout, generator, sum(sites), deviation)
        plain = _auroc(layout, np.random.default_rng(seed), sum(sites), 0.0)
        rows.append((value, (high - low) / 2, low <= truth <= high, (plain[2] - plain[1]) / 2))
    found = np.array(rows, float)
    told = found[np.isfinite(found[:, 0])]
    return told[:, 1].mean(), told[:, 3].mean(), told[:, 2].mean(), 1 - len(told) / len(found)


def _auroc(
    layout: Layout, generator: np.random.Generator, records: int, deviation: float
) -> tuple[float, ...]:
    labels = generator.integers(0, 2, records)
    odds = SPREAD * generator.normal(size=records) + SPREAD**2 * (labels - 0.5)
    counts = np.zeros((layout.bins, 2))
    np.add.at(counts, (np.searchsorted(layout.edges, odds, side="right"), labels), 1)
    cells = np.append(counts.reshape(-1), 0.0) + deviation * generator.normal(size=layout.size)
    one = estimates(layout, cells, deviation)["auroc"]
    return tuple(math.nan if x is None else x for x in (one.value, one.low, one.high))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=200)
    seeds = parser.parse_args().seeds
    print("| records | sites | bins | delta | half-width | without noise | ratio | held | none |")
    print("|---|---|---|---|---|---|---|---|---|")
    for sites, delta, dropouts in (
        ((2000,), 1e-5, None),
        (HOSPITALS, 1e-4, None),
        (HOSPITALS, 1e-4, 0),
        (HOSPITALS, 1e-4, 1),
    ):
        for bins in BINS:
            wide, plain, held, none = measured(sites, bins, delta, seeds, dropouts)
            name = str(len(sites)) if dropouts is None else f"{len(sites)}, a sum, {dropouts} may drop out"
            numbers = f"{wide:.3f} | {plain:.3f} | {wide / plain:.1f} | {held:.2f} | {none:.2f}"
            print(f"| {sum(sites)} | {name} | {bins} | {delta:g} | {numbers} |")


if __name__ == "__main__":
    main()
