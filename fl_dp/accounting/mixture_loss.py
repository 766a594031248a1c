"""The privacy loss of one step of a sum in which a person may have more than one record."""

import math
import sys
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr  # type: ignore[import-untyped]

from fl_dp.accounting.privacy_loss import Array, likelier, of_both_signs

_TABLE = 4096  # outcomes in the table where the search for a loss's outcome starts
_SEARCH = 40  # the most Newton steps; about five are needed
_EXACT = 4 * sys.float_info.epsilon  # relative to a loss: closer, rounding decides
_SMALL = 1.0  # if a ratio differs from 1 by less than this, the difference is not taken from its logarithm


@dataclass(frozen=True)
class MixtureLoss:
    """With a person who has a record at each of m clients, a step's outcome is drawn from the mixture
    P = sum_i b_i N(i, s^2), where b are the weights of Binomial(m, q); without, from Q = N(0, s^2). q < 1 is
    the sample rate, s the noise multiplier, m >= 2 the number of copies.

    No vectors of length at most 1 are worse, whatever their directions (Choquette-Choo, Ganesh, Steinke,
    Thakurta 2023, arXiv 2310.15526, corollary 4.7; for groups Ganesh 2024, arXiv 2401.10294).
    Clients with rates of their own have the weights of a Poisson binomial, which Binomial(m, largest rate)
    stochastically dominates. Then the latter's pair P, Q dominates theirs: P(X >= x) is a mean over i of
    something that grows with i, the best test in either direction is a half-line, and Q is the same.
    """

    sample_rate: float
    noise_multiplier: float
    copies: int

    @cached_property
    def weights(self) -> Array:
        """(m + 1,): b."""
        q, m = self.sample_rate, self.copies
        return np.array([math.comb(m, i) * q**i * (1.0 - q) ** (m - i) for i in range(m + 1)])

    def loss(self, outcome: ArrayLike) -> Array:
        """log(P / Q): grows with the outcome, from log(b_0), and is convex in it."""
        x = np.asarray(outcome, dtype=np.float64)
        excess, largest = np.zeros_like(x), np.full_like(x, -np.inf)
        exponents = self._exponents(x)
        for weight, exponent in exponents:
            excess += weight * np.expm1(np.minimum(exponent, 30.0))
            largest = np.maximum(largest, math.log(weight) + exponent)
        top = np.maximum(largest, math.log(self.weights[0]) if self.weights[0] else -np.inf)
        total = self.weights[0] * np.exp(-top)
        for weight, exponent in exponents:
            total = total + np.exp(math.log(weight) + exponent - top)
        with np.errstate(divide="ignore", invalid="ignore"):
            near = np.log1p(np.maximum(excess, -1.0))
        # nothing cancels against the 1 where the ratio is near it; far from it logarithms do not overflow
        return np.where(np.abs(excess) < _SMALL, near, top + np.log(total))

    def removal_delta(self, epsilon: ArrayLike) -> Array:
        """delta of P against Q, above the true one or within `evaluation_error` of it."""
        return of_both_signs(np.asarray(epsilon, dtype=np.float64), self._removal, self._addition)

    def addition_delta(self, epsilon: ArrayLike) -> Array:
        """delta of Q against P, as `removal_delta`."""
        return of_both_signs(np.asarray(epsilon, dtype=np.float64), self._addition, self._removal)

    def evaluation_error(self) -> float:
        """Bound on the rounding error of both deltas at an epsilon >= 0.

        Both are means over the number of copies that are there, which is 0 with probability b_0: means of
        `likelier`, which is off by a few machine epsilons, with weights whose exponents are rounded. Compared
        with 50 digits, at most 0.1 of this bound was seen.
        """
        m, s = self.copies, self.noise_multiplier
        exponents = m * (m + 9 * s) / s**2
        there = -math.expm1(m * math.log1p(-self.sample_rate))
        return there * (16 + m + 2 * exponents) * sys.float_info.epsilon

    def ends(self, deviations: float) -> tuple[float, float]:
        """The losses between which all but the mass of a normal's tail beyond `deviations` lies, under both P
        and Q.
        """
        s, mass = self.noise_multiplier, float(ndtr(-deviations))
        low, high = deviations * s, self.copies + deviations * s
        for _ in range(60):
            middle = (low + high) / 2
            beyond = float(self.weights @ ndtr((np.arange(self.copies + 1) - middle) / s))
            low, high = (middle, high) if beyond > mass else (low, middle)
        return float(self.loss(-deviations * s)), float(self.loss(high))

    def _exponents(self, x: Array) -> list[tuple[float, Array]]:
        """For each number of copies: its weight, and the log of N(i, s^2) divided by N(0, s^2)."""
        s = self.noise_multiplier
        present = [(i, float(weight)) for i, weight in enumerate(self.weights) if i and weight > 0.0]
        return [(weight, (x - i / 2) * i / s**2) for i, weight in present]

    def _outcome(self, loss: Array) -> Array:
        """The approximate outcome with that loss; an end of the table if it lies beyond.

        Newton's method on an increasing convex function, from the right: it never passes the answer.
        """
        s = self.noise_multiplier
        table = np.linspace(-40 * s, self.copies + 40 * s, _TABLE)
        losses = self.loss(table)
        x = table[np.minimum(np.searchsorted(losses, loss), _TABLE - 1)]
        for _ in range(_SEARCH):
            excess = self.loss(x) - loss
            if not (excess > _EXACT * (1 + np.abs(loss))).any():
                break
            x = np.clip(x - np.maximum(excess, 0.0) / self._slope(x), table[0], table[-1])
        return np.asarray(x)

    def _slope(self, x: Array) -> Array:
        """Derivative of the loss by the outcome: the mean number of copies, given the outcome, over s^2."""
        mean = sum(i * posterior for i, posterior in self._posterior(x))
        return np.maximum(np.asarray(mean) / self.noise_multiplier**2, sys.float_info.min)

    def _posterior(self, x: Array) -> list[tuple[int, Array]]:
        """The probability of i copies, given the outcome, for each i > 0."""
        s, loss = self.noise_multiplier, self.loss(x)
        present = [(i, float(weight)) for i, weight in enumerate(self.weights) if i and weight > 0.0]
        return [(i, np.exp(math.log(weight) + (x - i / 2) * i / s**2 - loss)) for i, weight in present]

    def _removal(self, epsilon: Array) -> Array:
        """P(X >= x) - exp(epsilon) Q(X >= x), where x is the outcome whose loss is epsilon >= 0.

        It is sum_i b_i (R_i(X >= x) - exp(g_i) Q(X >= x)), R_i = N(i, s^2), g_i the log of R_i / Q at x, and
        nothing cancels in it. For another x it is delta at the loss of that x; if this loss is above epsilon,
        delta at epsilon is larger by no more than the difference times P(X >= x).
        """
        s, x = self.noise_multiplier, self._outcome(epsilon)
        delta, beyond = np.zeros_like(x), np.full_like(x, self.weights[0]) * ndtr(-x / s)
        for i, weight in enumerate(self.weights):
            if i and weight > 0.0:
                delta += weight * _likelier((x - i) / s, i / s)
                beyond += weight * ndtr((i - x) / s)
        return np.asarray(delta + np.maximum(self.loss(x) - epsilon, 0.0) * beyond)

    def _addition(self, epsilon: Array) -> Array:
        """Q(X <= x) - exp(epsilon) P(X <= x), x the outcome whose loss is -epsilon <= 0; 0 if there is none.

        It is sum_i p_i (Q(X <= x) - exp(-g_i) R_i(X <= x)), p_i the probability of i copies given x. For
        another x as in `_removal`.
        """
        most = -self.copies * math.log1p(-self.sample_rate)
        below = np.where(epsilon < most, epsilon, 0.0)
        s, x = self.noise_multiplier, self._outcome(-below)
        delta = np.zeros_like(x)
        for i, posterior in self._posterior(x):
            delta += posterior * _likelier(-x / s, i / s)
        delta += np.maximum(-self.loss(x) - below, 0.0) * ndtr(x / s)
        return np.where(epsilon < most, delta, 0.0)


def _likelier(t: Array, width: float) -> Array:
    """`likelier` for any t: far to the left erfcx would overflow, and a logarithm serves."""
    left = t + width < -5.0
    found = likelier(np.where(left, -width, t), width)
    if not left.any():
        return found
    far = ndtr(-t) - np.exp(np.where(left, width * (t + width / 2), -np.inf) + log_ndtr(-(t + width)))
    return np.where(left, np.maximum(far, 0.0), found)
