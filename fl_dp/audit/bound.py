"""A lower bound of epsilon from the number of right guesses, by the theorem of one-run auditing.

Steinke, Nasr, Jagielski 2023, "Privacy Auditing with One (1) Training Run" (arXiv 2305.08846).
"""

import math

import numpy as np
from scipy.special import bdtrc  # type: ignore[import-untyped]

from fl_dp.errors import ConfigError

_HALVINGS = 30


def p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """The largest probability of `right` or more right guesses under any (epsilon, delta)-DP mechanism.

    Corollary 5.4 of the paper (version 1; its appendix D computes the same). A fair coin for each of
    `canaries` records decides whether it is included. Somebody sees the output, and from it alone chooses
    `guesses` of the coins and guesses them. The number of right guesses is then stochastically dominated by a
    sum W + F. W is Binomial(guesses, e^eps / (1 + e^eps)), and F, the part of delta, is in {0..canaries} with
    E[F] <= 2 * canaries * delta. Hence, with v = right,

        P[right >= v] <= P[W >= v] + 2 * canaries * delta * max over i >= 1 of P[v - i <= W < v] / i.
    """
    if not 0 <= right <= guesses <= canaries:
        raise ConfigError(f"Expected 0 <= right={right} <= guesses={guesses} <= canaries={canaries}.")
    if right == 0:
        return 1.0
    at_least = _binomial_tails(guesses, right, 1.0 / (1.0 + math.exp(-epsilon)))  # i = 0..right
    shifts = np.arange(1, right + 1)
    gain = float(np.max((at_least[1:] - at_least[0]) / shifts))
    return min(1.0, float(at_least[0]) + 2 * canaries * delta * gain)


def epsilon_lower_bound(
    canaries: int, guesses: int, right: int, delta: float, confidence: float = 0.95
) -> float:
    """An epsilon that is at most the true one, at `delta`, with probability `confidence` at least.

    It is the largest epsilon whose p-value is below 1 - confidence, rounded down; 0.0 if there is none. It
    exceeds the true one only by lucky guessing, which has a probability of 1 - confidence at most.
    """
    if not 0.0 < confidence < 1.0:
        raise ConfigError(f"Expected confidence={confidence} in (0, 1).")

    def refuted(epsilon: float) -> bool:
        return p_value(canaries, guesses, right, epsilon, delta) < 1.0 - confidence

    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while refuted(high):
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def _binomial_tails(
    trials: int, right: int, probability: float
) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """(right + 1,) P[Binomial(trials, probability) >= right - i] for i = 0..right."""
    below = np.arange(right - 1, -1, -1)  # P[W >= k] = P[W > k - 1]
    return np.append(bdtrc(below, trials, probability), 1.0)
