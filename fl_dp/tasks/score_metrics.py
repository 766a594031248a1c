"""Metrics of a noised histogram of scores (`score_histogram.py`), and their intervals: post-processing only.

The counts of several sites add up, and so do the variances of their noise. Denominators are noised, too.

An interval covers two errors: the records are a sample, and the counts are noised. It is a parametric
bootstrap with a pivot (Efron, Tibshirani 1993, section 13.3). The counts are projected to the nearest ones
that are not negative and have the same total. Samples of that many records are drawn from these, with noise
of the same deviation. The errors of the metric in these samples are subtracted from the metric. The draws are
seeded, so that everybody gets the same interval. Bins are a third error, which no interval shows
(docs/site-metrics.md).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fl_dp.tasks.score_histogram import BINS, MIDDLES, TRUE_CLASS, Block, Layout

LEVEL = 0.95
DRAWS = 1000
_MOST_UNDEFINED = 0.02  # share of draws in which a metric may be undefined; with more there is no interval
_NORMAL = 1.96  # deviations of an interval at LEVEL
_LEAST = 1.0  # records in a denominator
_MOST_RECORDS = 1e15  # of a sample: an integer of 64 bits
_UNBOUNDED = ("log-loss", "brier", "records")  # may be above 1

Numbers = NDArray[np.float64]
Metrics = dict[str, Numbers]


@dataclass(frozen=True, slots=True)
class Estimate:
    """value: the metric; low, high: ends of its interval. None: too few records for the noise."""

    value: float | None
    low: float | None
    high: float | None


def estimates(layout: Layout, cells: Numbers, deviation: float, seed: int = 0) -> dict[str, Estimate]:
    """All metrics of the noised and weighted counts (layout.size,), by name, with their intervals at LEVEL.

    deviation: of the noise in each cell. "records": how many were scored, about; "invalid": how many could
    not be.
    """
    generator = np.random.default_rng(seed)
    found: dict[str, Estimate] = {}
    for place, block in enumerate(layout.blocks):
        counts = layout.counts_of(place, cells)
        centre = projected(counts)
        drawn = _drawn(centre, deviation / block.weight, generator)
        told, true, again = (_of_block(layout, block, one) for one in (counts, centre, drawn))
        for name, value in told.items():
            if name not in found:
                found[name] = _estimate(name, float(value), float(true[name]), again[name])
    invalid, width = float(cells[-1]), _NORMAL * deviation  # records that the model could not score
    found["invalid"] = Estimate(*(max(0.0, one) for one in (invalid, invalid - width, invalid + width)))
    return found | _over_classes(layout, cells, deviation, generator)


def projected(counts: Numbers) -> Numbers:
    """The nearest counts that are not negative and have the same total, at least _LEAST.

    Projection to a simplex (Duchi et al. 2008, "Efficient projections onto the l1-ball", figure 1).
    """
    total, ordered = max(float(counts.sum()), _LEAST), np.sort(counts.reshape(-1))[::-1]
    over = (np.cumsum(ordered) - total) / np.arange(1, ordered.size + 1)
    shift = over[np.flatnonzero(ordered > over)[-1]]
    found: Numbers = np.maximum(counts - shift, 0.0)
    return found


def _drawn(centre: Numbers, deviation: float, generator: np.random.Generator) -> Numbers:
    """(DRAWS, *shape) counts of as many records from the distribution of `centre`, with noise."""
    flat = centre.reshape(-1)
    records = round(min(max(1.0, flat.sum()), _MOST_RECORDS))
    sample = generator.multinomial(records, flat / flat.sum(), size=DRAWS)
    noisy = sample + deviation * generator.standard_normal(sample.shape)
    return noisy.reshape(DRAWS, *centre.shape)


def _estimate(name: str, value: float, true: float, again: Numbers) -> Estimate:
    errors = again[np.isfinite(again)] - true
    if not (np.isfinite(value) and np.isfinite(true)) or len(errors) < (1 - _MOST_UNDEFINED) * len(again):
        return Estimate(None, None, None)
    low, high = np.quantile(errors, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    most = np.inf if name.partition("[")[0] in _UNBOUNDED else 1.0
    least = -1.0 if name.startswith("calibration") else 0.0
    ends = np.clip([value, value - high, value - low], least, most)
    return Estimate(*(float(one) for one in ends))


def _of_block(layout: Layout, block: Block, counts: Numbers) -> Metrics:
    """The metrics of one block, counts (..., bins, 2); NaN where undefined."""
    records = {"records": counts.sum((-2, -1))}
    if layout.binary:
        return records | _of_two_classes(counts)
    if block.of_class == TRUE_CLASS:
        log_loss = _share(-(counts.sum(-1) * np.log(MIDDLES)).sum(-1), counts)
        return records | {"accuracy": _share(counts[..., 1].sum(-1), counts), "log-loss": log_loss}
    return records | {f"auroc[{block.of_class}]": auroc(counts)}


def _of_two_classes(counts: Numbers) -> Metrics:
    """counts (..., bins, 2): by score of the second class, and whether it is the label."""
    p, half = MIDDLES, BINS // 2
    no, yes = counts[..., 0], counts[..., 1]
    right = no[..., :half].sum(-1) + yes[..., half:].sum(-1)
    return {
        "accuracy": _share(right, counts),
        "auroc": auroc(counts),
        "log-loss": _share(-(yes @ np.log(p) + no @ np.log1p(-p)), counts),
        "brier": _brier(counts),
        "calibration": _share(yes.sum(-1) - (no + yes) @ p, counts),  # observed minus predicted
        "recall": _share(yes[..., half:].sum(-1), yes[..., None]),
        "selection-rate": _share((no + yes)[..., half:].sum(-1), counts),
    }


def auroc(counts: Numbers) -> Numbers:
    """Area under the ROC curve of counts (..., bins, 2); scores of one bin are equal, and count half."""
    no, yes = counts[..., 0], counts[..., 1]
    below = np.cumsum(no, -1) - no / 2
    pairs = no.sum(-1) * yes.sum(-1)
    enough = (no.sum(-1) >= _LEAST) & (yes.sum(-1) >= _LEAST)
    return _divided((yes * below).sum(-1), pairs, enough)


def _share(part: Numbers, counts: Numbers) -> Numbers:
    whole = counts.sum((-2, -1))
    return _divided(part, whole, whole >= _LEAST)


def _divided(part: Numbers, whole: Numbers, enough: NDArray[np.bool_]) -> Numbers:
    return np.where(enough, part / np.where(enough, whole, 1.0), np.nan)


def _over_classes(
    layout: Layout, cells: Numbers, deviation: float, generator: np.random.Generator
) -> dict[str, Estimate]:
    """For several classes: the mean AUROC, each class against the rest, and the Brier score, a sum over
    classes.

    The same records are in each class's block, so errors of the blocks depend on each other. The interval
    holds for any dependence: it assumes errors that rise and fall together, for which it is widest.
    """
    each = [
        layout.counts_of(place, cells)
        for place, block in enumerate(layout.blocks)
        if block.of_class != TRUE_CLASS
    ]
    if layout.binary or not each:
        return {}
    centres = [projected(one) for one in each]
    deviation *= math.sqrt(len(each))  # the weight of their blocks is one over that
    drawn = [_drawn(one, deviation, generator) for one in centres]
    ways: dict[str, Callable[[Numbers], Numbers]] = {"auroc": auroc, "brier": _brier}
    return {
        name: _estimate(
            name,
            float(np.mean([of(one) for one in each])) * times,
            float(np.mean([of(one) for one in centres])) * times,
            np.mean([np.sort(of(one)) for one in drawn], axis=0) * times,
        )
        for (name, of), times in zip(ways.items(), (1, len(each)), strict=True)
    }


def _brier(counts: Numbers) -> Numbers:
    return _share(counts[..., 1] @ (1 - MIDDLES) ** 2 + counts[..., 0] @ MIDDLES**2, counts)
