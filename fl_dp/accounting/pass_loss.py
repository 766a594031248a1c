"""The privacy loss of one pass in which every record takes part in exactly one of t steps, by its own coin.

With a record, the outcome of a pass is drawn from P = (1 / t) sum_j N(e_j, s^2 I_t), without it from
Q = N(0, s^2 I_t); s is the noise multiplier. Theorem: no pass is worse, in either direction, even if each
step's gradients depend on all earlier outputs, of this pass and of earlier ones.

Proof. The others' coins have the same law with and without the record, and are independent of its own.
Hockey-stick divergence is jointly convex, so let them be fixed. Step i then releases, in units of C,
o_i = f_i + [coin = i] g_i + s Z_i. Here f_i and g_i are functions of o_1, ..., o_(i-1), and |g_i| <= 1. Let
x be drawn from P or from Q, and u_i be the direction of g_i. One after the other, compute

    o_i = f_i + u_i (|g_i| x_i + s sqrt(1 - |g_i|^2) W_i) + s (noise orthogonal to u_i),  W_i normal.

If x comes from Q, this is the pass without the record. Given coin j, x_i is N([i = j], s^2), and this is the
pass with it. So the pass is post-processing of x, the same for P and Q. Passes compose like steps, even if
weights and bounds are chosen by earlier results (Zhu, Dong, Wang 2022, arXiv 2106.08567, theorem 10). The
pair is that of Chua et al. 2024 (arXiv 2412.16802) and of Feldman, Shenfeld 2025 (arXiv 2502.08202).
"""

import math
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr  # type: ignore[import-untyped]

from fl_dp.accounting.events import order_two_divergence
from fl_dp.accounting.privacy_loss import Array
from fl_dp.records import Entry

_RESOLUTION = 0.02  # grid interval over the standard deviation of a pass's loss
_DEVIATIONS = 9.0  # of the noise; the mass beyond is 1e-19
_NEGLIGIBLE = 1e-22  # mass of a tail that is cut off a sum
_MOST_LOG = 600.0  # exponentials up to it are floats, and so are their products with a probability
_MARGIN = 1e-11  # of losses: the relative error of every x below is smaller


@dataclass(frozen=True, slots=True)
class _Positive:
    """A random number >= 0: exp((first + i) h) with probability masses[i], 0 with probability zero.

    It stands for the mean S of X_1, ..., X_k under Q, X_j = exp(x_j / s^2 - 1 / 2s^2). lost: bound on what
    was taken off its expectation, 1. For k = t, S is P / Q, and both divergences are expectations of convex
    functions of it:

        delta(P, Q) = E (S - e^eps)+,     delta(Q, P) = E (1 - e^eps S)+.

    So neither falls if a value is split into two with the same mean (Jensen), or if it is lowered, when what
    the expectation loses is added to the first, as mass of infinite loss. Nothing else is done to S here.
    Splits are to the neighbours on the grid, and each adds h^2 / 4 at most to the variance of log S. All
    numbers are sums and products of positive ones, so that their relative errors stay tiny.
    """

    first: int
    masses: Array
    zero: float
    lost: float

    def refined(self) -> "_Positive":
        """The same on a grid of half the interval."""
        masses = np.zeros(2 * len(self.masses) - 1)
        masses[::2] = self.masses
        return _Positive(2 * self.first, masses, self.zero, self.lost)


@dataclass(frozen=True)
class PassLoss:
    """The loss of a pass of `steps` steps, >= 2, with this noise multiplier, as bounds of both deltas."""

    steps: int
    noise_multiplier: float

    def removal_delta(self, epsilon: ArrayLike) -> Array:
        """Upper bound of delta of P against Q: the integral of Q(S > u) over u > e^eps, and what was lost."""
        losses, x, masses, lost = self._table
        at = np.asarray(epsilon, dtype=np.float64) - _MARGIN
        above = np.cumsum(masses[::-1])[::-1]  # Q(S >= x_i)
        from_x = np.append(np.cumsum((above[1:] * np.diff(x))[::-1])[::-1], 0.0)
        i = np.searchsorted(losses, at, side="right")  # the first above
        j = np.minimum(i, len(losses) - 1)
        part = above[j] * x[j] * -np.expm1(np.minimum(at - losses[j], 0.0)) + from_x[j]
        return self._bounded(np.where(i < len(losses), part, 0.0) + lost)

    def addition_delta(self, epsilon: ArrayLike) -> Array:
        """Upper bound of delta of Q against P: the integral of Q(S < u) over u < e^-eps, times e^eps."""
        losses, x, masses, _ = self._table
        zero = self._mean.zero
        at = _MARGIN - np.asarray(epsilon, dtype=np.float64)  # log of u
        below = zero + np.cumsum(masses)  # Q(S <= x_i)
        up_to_x = zero * x[0] + np.append(0.0, np.cumsum(below[:-1] * np.diff(x)))
        i = np.searchsorted(losses, at, side="left") - 1  # the last below
        j = np.maximum(i, 0)
        gap = np.maximum(at - losses[j], 0.0)
        part = up_to_x[j] * np.exp(-losses[j] - gap) + below[j] * -np.expm1(-gap)
        return self._bounded(np.where(i >= 0, part, zero))

    def evaluation_error(self) -> float:
        """Both deltas are upper bounds, rounding errors included."""
        return 0.0

    def ends(self, _deviations: float) -> tuple[float, float]:
        """The losses between which nearly all mass lies, under both P and Q."""
        losses = self._table[0]
        return float(losses[0]), float(losses[-1])

    def _bounded(self, delta: Array) -> Array:
        """A sum of k terms has relative errors of at most k roundings of each, and a product adds up those of
        its factors: those of S are t times those of one X and of a mean's 2 n terms.
        """
        roundings = self.steps * (4.0 * len(self._mean.masses) + 10**5)
        return np.clip(delta * (1.0 + roundings * np.finfo(np.float64).eps), 0.0, 1.0)

    @cached_property
    def _interval(self) -> float:
        t, s = self.steps, self.noise_multiplier
        variance = order_two_divergence(Entry(1 / t, s, t, pass_steps=t))
        return _RESOLUTION * min(math.sqrt(variance), 1.0 / s)

    @cached_property
    def _mean(self) -> _Positive:
        return _mean_of(self.steps, self._interval, 1.0 / self.noise_multiplier)

    @cached_property
    def _table(self) -> tuple[Array, Array, Array, float]:
        """Losses (n,), their exponentials S (n,), probabilities under Q (n,); the infinite loss's under P."""
        one = self._mean
        logs = (one.first + np.arange(len(one.masses), dtype=np.float64)) * self._interval
        return logs, np.exp(logs), one.masses, one.lost


@lru_cache(maxsize=16)
def pass_loss(steps: int, noise_multiplier: float) -> PassLoss:
    """The loss, shared by all who ask: its table takes a second for some hundreds of steps."""
    return PassLoss(steps, noise_multiplier)


def _mean_of(steps: int, interval: float, deviation: float) -> _Positive:
    """The mean of X_1, ..., X_t on a grid of this interval.

    The errors of 2^depth independent parts average out, so that their grid may be sqrt(2^depth) as coarse.
    """

    @cache
    def of(k: int, depth: int) -> _Positive:
        h = interval * 2.0 ** (depth // 2)
        if k == 1:
            return _log_normal(h, deviation)
        one, other = of(k // 2, depth + 1), of(k - k // 2, depth + 1)
        if depth % 2:
            one, other = one.refined(), other.refined()
        return _averaged(one, other, (k // 2) / k, h)

    return of(steps, 0)


def _log_normal(h: float, a: float) -> _Positive:
    """X = exp(a W - a^2 / 2), W standard normal, every value split between its neighbours on the grid.

    A value below the grid counts as 0, one beyond it as its end.
    """
    low, high = -a * a / 2 - _DEVIATIONS * a, a * a / 2 + _DEVIATIONS * a
    most = math.floor(_MOST_LOG / h)  # not beyond it on a coarse grid either
    first, last = max(math.floor(low / h), -most), min(math.ceil(high / h), most)
    grid = np.arange(first, last + 1, dtype=np.float64) * h
    # between neighbours: the probability, and the part of X's expectation
    masses, means = _cells(grid / a + a / 2), _cells(grid / a - a / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (np.exp(np.log(means) - np.log(masses) - grid[:-1]) - 1.0) / math.expm1(h)
    share = np.clip(np.nan_to_num(share, nan=0.0), 0.0, 1.0)
    found = np.zeros(len(grid))
    found[:-1] += masses * (1.0 - share)
    found[1:] += masses * share
    found[-1] += ndtr(-(grid[-1] / a + a / 2))
    lost = ndtr(grid[0] / a - a / 2) + ndtr(a / 2 - grid[-1] / a)
    return _Positive(first, found, float(ndtr(grid[0] / a + a / 2)), float(lost))


def _cells(z: Array) -> Array:
    """A standard normal's mass between neighbours of z, from the smaller tail."""
    left, right = z[:-1], z[1:]
    return np.asarray(np.where(left > 0, ndtr(-left) - ndtr(-right), ndtr(right) - ndtr(left)))


def _averaged(one: _Positive, other: _Positive, weight: float, h: float) -> _Positive:
    """weight * one + (1 - weight) * other, independent, every value split between its neighbours on the grid.

    Where either is 0 the mean counts as 0.
    """
    first = min(one.first, other.first)
    n = max(one.first + len(one.masses), other.first + len(other.masses)) - first
    a, b = (_padded(part, first, n) for part in (one, other))
    found = np.zeros(n + 1)
    for higher, lower, own, least in ((a, b, weight, 0), (b, a, 1.0 - weight, 1)):
        gaps = np.arange(least, n)
        # of the mean over the higher value, in intervals: negative
        rises = np.log1p((1.0 - own) * np.expm1(-gaps * h)) / h
        whole = np.maximum(np.floor(rises), -gaps)
        shares = np.expm1((rises - whole) * h) / math.expm1(h)
        for gap, rise, share in zip(gaps.tolist(), whole.astype(int).tolist(), shares.tolist(), strict=True):
            pairs = higher[gap:] * lower[: n - gap]
            found[gap + rise : n + rise] += (1.0 - share) * pairs
            found[gap + rise + 1 : n + rise + 1] += share * pairs
    lost = weight * (one.lost + other.zero) + (1.0 - weight) * (
        other.lost + one.zero
    )  # both expect 1 at most
    return _trimmed(_Positive(first, found, one.zero + other.zero, lost), h)


def _padded(one: _Positive, first: int, n: int) -> Array:
    padded = np.zeros(n)
    padded[one.first - first : one.first - first + len(one.masses)] = one.masses
    return padded


def _trimmed(one: _Positive, h: float) -> _Positive:
    """Without the ends, where hardly any mass is: the lower one becomes 0, the upper one its beginning."""
    logs = (one.first + np.arange(len(one.masses))) * h
    means = one.masses * np.exp(logs)
    start = min(int(np.searchsorted(np.cumsum(one.masses), _NEGLIGIBLE)), len(logs) - 1)
    from_top = np.cumsum(means[::-1])
    end = max(len(logs) - int(np.searchsorted(from_top, _NEGLIGIBLE * from_top[-1])), start + 1)
    masses = one.masses[start:end].copy()
    masses[-1] += one.masses[end:].sum()
    return _Positive(
        one.first + start,
        masses,
        one.zero + float(one.masses[:start].sum()),
        one.lost + float(means[:start].sum() + means[end:].sum()),
    )
