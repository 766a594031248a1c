"""The privacy loss of one step, the Poisson-sampled Gaussian mechanism, in closed form."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr  # type: ignore[import-untyped]

Array = NDArray[np.float64]

_LARGE = 40.0  # from here on exp(loss) - 1 is exp(loss) in double precision


@dataclass(frozen=True, slots=True)
class StepLoss:
    """With a record a step's outcome is drawn from the mixture P = (1 - q) N(0, s^2) + q N(1, s^2), without
    it from Q = N(0, s^2); q is the sample rate, s the noise multiplier.

    P against Q is the worst case of removing a record, Q against P that of adding one (Zhu, Dong, Wang 2022,
    arXiv 2106.08567, theorem 11). Neither of the two is always the worse after composition (Lebeda, Regehr,
    Kamath, Steinke 2024, arXiv 2405.20769): an accountant composes both and takes the larger epsilon.
    """

    sample_rate: float
    noise_multiplier: float

    def loss(self, outcome: ArrayLike) -> Array:
        """log(P / Q): grows with the outcome, from log(1 - q)."""
        q, s = self.sample_rate, self.noise_multiplier
        gaussian = (np.asarray(outcome, dtype=np.float64) - 0.5) / s**2
        return gaussian if q == 1.0 else np.logaddexp(math.log1p(-q), math.log(q) + gaussian)

    def outcome(self, loss: ArrayLike) -> Array:
        """The outcome that has this loss; -inf for a loss up to log(1 - q)."""
        return self._gaussian_loss(np.asarray(loss, dtype=np.float64)) * self.noise_multiplier**2 + 0.5

    def removal_delta(self, epsilon: Array) -> Array:
        """delta of P against Q: P(X >= x) - exp(epsilon) Q(X >= x), x the outcome whose loss is epsilon."""
        q, s, gaussian, x = self.sample_rate, self.noise_multiplier, *self._cut(epsilon)
        some: Array = q * (ndtr((1 - x) / s) - np.exp(gaussian + log_ndtr(-x / s)))
        every = -np.expm1(np.minimum(epsilon, 0.0))  # no outcome has less than this loss
        return np.clip(np.where(gaussian == -np.inf, every, some), 0.0, 1.0)

    def addition_delta(self, epsilon: Array) -> Array:
        """delta of Q against P: Q(X <= x) - exp(epsilon) P(X <= x), x the outcome whose loss is -epsilon."""
        q, s, gaussian, x = self.sample_rate, self.noise_multiplier, *self._cut(-epsilon)
        without, with_record = gaussian + log_ndtr(x / s), log_ndtr((x - 1) / s)
        delta: Array = q * (np.exp(epsilon + without) - np.exp(epsilon + with_record))
        return np.clip(delta, 0.0, 1.0)

    def removal_cdf(self, loss: ArrayLike) -> Array:
        """Probability under P that log(P / Q) is at most `loss`."""
        q, s, x = self.sample_rate, self.noise_multiplier, self.outcome(loss)
        return np.asarray((1 - q) * ndtr(x / s) + q * ndtr((x - 1) / s))

    def addition_cdf(self, loss: ArrayLike) -> Array:
        """Probability under Q that log(Q / P) is at most `loss`."""
        return np.asarray(ndtr(-self.outcome(-np.asarray(loss, dtype=np.float64)) / self.noise_multiplier))

    def _cut(self, loss: Array) -> tuple[Array, Array]:
        """The loss that the outcome would have without sampling, and the outcome."""
        gaussian = self._gaussian_loss(loss)
        return gaussian, gaussian * self.noise_multiplier**2 + 0.5

    def _gaussian_loss(self, loss: Array) -> Array:
        """log((exp(loss) - (1 - q)) / q); -inf for a loss up to log(1 - q)."""
        q = self.sample_rate
        if q == 1.0:
            return loss
        ratio = np.maximum(np.expm1(np.minimum(loss, _LARGE)) / q, -1.0)
        with np.errstate(divide="ignore"):  # log of 0 is meant
            return np.where(loss > _LARGE, loss - math.log(q), np.log1p(ratio))
