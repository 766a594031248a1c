"""What was done to the data, as numbers: entries, merged, and their size."""

import math
from collections import Counter
from collections.abc import Iterable

from fl_dp.records import Entry, Mechanism

_HARDLY_EVER = 1e-16  # a probability


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
    if entry.copies > 1:
        return _of_copies(entry)
    inverse = 1.0 / entry.noise_multiplier
    gaussian = inverse * inverse  # for 1e-300 it is infinite, above the true one; a power would raise
    if gaussian > 700.0:  # expm1 would overflow; without sampling the divergence is larger
        return gaussian
    return math.log1p(entry.sample_rate**2 * math.expm1(gaussian))


def _of_copies(entry: Entry) -> float:
    """About the same for the mixture of copies (`mixture_loss.py`), used only as a scale: log of the mean of
    exp(i j / sigma^2), i and j drawn from Binomial(copies, q).

    Very unlikely numbers of copies are left out: they decide a moment, but not what the loss is like.
    """
    q, m = entry.sample_rate, entry.copies
    over = 1.0 / entry.noise_multiplier / entry.noise_multiplier
    chances = [math.comb(m, i) * q**i * (1.0 - q) ** (m - i) for i in range(m + 1)]
    while len(chances) > 2 and chances[-1] < _HARDLY_EVER:
        chances.pop()
    most = (len(chances) - 1) ** 2 * over
    if most > 700.0:  # exp would overflow; with all of these copies the divergence is larger
        return most
    pairs = ((i, j) for i in range(1, len(chances)) for j in range(1, len(chances)))
    return math.log1p(math.fsum(chances[i] * chances[j] * math.expm1(i * j * over) for i, j in pairs))
