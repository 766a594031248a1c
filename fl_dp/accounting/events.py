"""What was done to the data, as numbers: merged entries, and their size."""

import math
from collections import Counter
from collections.abc import Iterable

from fl_dp.records import Entry


def merge(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """One entry for each (sample_rate, noise_multiplier), its steps added up, sorted.

    Equal mechanisms are merged wherever they stand, because the guarantee of mechanisms that are not chosen
    by earlier results does not depend on their order. Equal histories thus become equal keys of a cache.
    """
    entries = tuple(entries)
    if len(entries) < 2:
        return entries
    steps: Counter[tuple[float, float]] = Counter()
    for entry in entries:
        steps[entry.sample_rate, entry.noise_multiplier] += entry.steps
    return tuple(sorted(Entry(*mechanism, count) for mechanism, count in steps.items()))


def order_two_divergence(entry: Entry) -> float:
    """Renyi divergence of order 2 of one step, log(1 + q^2 (exp(1/sigma^2) - 1)), never too small.

    From Mironov, Talwar, Zhang 2019 (arXiv 1908.10530), section 3.3, at order 2. It is also close to the
    variance of one step's privacy loss: the scale on which the loss must be resolved. Infinite without noise.
    """
    if not entry.private:
        return math.inf
    inverse = 1.0 / entry.noise_multiplier
    gaussian = inverse * inverse  # of 1e-300 it is infinite, which is above the true one; a power would raise
    if gaussian > 700.0:  # expm1 would overflow; without sampling the divergence is larger
        return gaussian
    return math.log1p(entry.sample_rate**2 * math.expm1(gaussian))
