"""What was done to the data, as numbers: entries, merged, and their size."""

import math
from collections import Counter
from collections.abc import Iterable

from fl_dp.records import Entry, Mechanism


def merge(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """One entry for each mechanism (`Entry.mechanism`), with its steps added up, sorted.

    Equal mechanisms are merged wherever they stand, because order is irrelevant to the guarantee of
    mechanisms that are not chosen by earlier results. Equal histories thus become equal cache keys.
    """
    entries = tuple(entries)
    if len(entries) < 2:
        return entries
    first: dict[Mechanism, Entry] = {}
    steps: Counter[Mechanism] = Counter()
    for entry in entries:
        first.setdefault(entry.mechanism, entry)
        steps[entry.mechanism] += entry.steps
    return tuple(sorted(entry.taking(steps[mechanism]) for mechanism, entry in first.items()))


def beyond(entries: Iterable[Entry], less: Iterable[Entry]) -> tuple[Entry, ...]:
    """The steps of `entries` that are not in `less`, mechanism by mechanism, merged."""
    held = {entry.mechanism: entry.steps for entry in merge(less)}
    left = ((one, one.steps - held.get(one.mechanism, 0)) for one in merge(entries))
    return tuple(one.taking(steps) for one, steps in left if steps > 0)


def order_two_divergence(entry: Entry) -> float:
    """Renyi divergence of order 2 of one step, log(1 + q^2 (exp(1/sigma^2) - 1)), never too small.

    From Mironov, Talwar, Zhang 2019 (arXiv 1908.10530), section 3.3, at order 2. It is also close to the
    variance of one step's privacy loss: the scale on which the loss must be resolved. Infinite without noise.
    """
    if not entry.private:
        return math.inf
    inverse = 1.0 / entry.noise_multiplier
    gaussian = inverse * inverse  # for 1e-300 it is infinite, above the true one; a power would raise
    if gaussian > 700.0:  # expm1 would overflow; without sampling the divergence is larger
        return gaussian
    return math.log1p(entry.sample_rate**2 * math.expm1(gaussian))
