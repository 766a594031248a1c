"""Guesses from scores which canaries were in, and bounds epsilon by the number of right guesses.

One bound is the theorem of Steinke, Nasr, Jagielski 2023, "Privacy Auditing with One (1) Training Run" (arXiv
2305.08846); the other is that of `f_dp.py`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc  # type: ignore[import-untyped]

from fl_dp.audit.f_dp import LeastWrong, TradeOff, refuted, refuted_by_runs
from fl_dp.audit.noise_family import NoiseFamily
from fl_dp.errors import AccountingError, ConfigError

# 2: guess one half of the canaries, and so on. Many guesses prove a small epsilon more surely; few can prove
# a larger one. All are tried, and the best is taken after seeing which were right. So each gets an equal
# share of the error probability (Bonferroni).
_PARTS = (2, 8, 32)
_HALVINGS = 30

Scores = NDArray[np.float64]
Coins = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Guesses:
    """Of `guesses` guesses among `canaries` canaries, `right` were right."""

    canaries: int
    guesses: int
    right: int


@dataclass(frozen=True, slots=True)
class Finding:
    """The largest lower bound found: `epsilon`, from `guesses` guesses of which `right` were right."""

    epsilon: float
    guesses: int
    right: int


def find_epsilon(scores: Scores, included: Coins, delta: float, confidence: float = 0.95) -> Finding:
    """A lower bound of epsilon at `delta`, above the truth with probability 1 - confidence at most.

    By the theorem of Steinke et al. 2023, which holds for any mechanism that is (epsilon, delta)-DP.
    scores: (m,) one for each canary, high if it looks included; included: (m,) the coins.
    Raises ConfigError for fewer than two canaries, AccountingError for scores that are not finite.
    """
    share = 1.0 - (1.0 - confidence) / len(_PARTS)

    def finding(one: Guesses) -> Finding:
        bound = epsilon_lower_bound(one.canaries, one.guesses, one.right, delta, share)
        return Finding(bound, one.guesses, one.right)

    return max(map(finding, _tries(scores, included)), key=lambda found: found.epsilon)


def find_epsilon_by_f_dp(
    scores: Scores, included: Coins, family: NoiseFamily, confidence: float = 0.95
) -> Finding:
    """The epsilon of the member of `family` with the least noise that the guesses refute; 0.0 if none.

    By Mahloujifar et al. 2024. If the mechanism is a member, its epsilon is below the answer with probability
    1 - confidence at most. If not, the answer tells which members' trade-offs it cannot have.
    Arguments and errors are those of `find_epsilon`.
    """
    level = (1.0 - confidence) / len(_PARTS)
    tries = _tries(scores, included)

    def by(one: Guesses, least_wrong: LeastWrong) -> bool:
        return refuted(one.canaries, one.guesses, one.right, least_wrong, level)

    def any_of_them(trade_off: TradeOff) -> bool:
        least_wrong = trade_off.least_wrong()
        return any(by(one, least_wrong) for one in tries)

    noise = family.least_refuted(any_of_them)
    if noise == math.inf:
        return Finding(0.0, tries[0].guesses, tries[0].right)
    least_wrong = family.trade_off(noise).least_wrong()
    proof = next(one for one in tries if by(one, least_wrong))
    return Finding(family.epsilon(noise), proof.guesses, proof.right)


def find_epsilon_in_runs(
    runs: Sequence[tuple[Scores, Coins]], family: NoiseFamily, confidence: float = 0.95
) -> Finding:
    """As `find_epsilon_by_f_dp`, from independent runs with their own coins, where every coin is guessed.

    The half of a run's canaries with the higher scores is guessed to be in. See `refuted_by_runs`.
    """
    guesses = [_guess(scores, included, len(scores) // 2) for scores, included in runs]
    shares = [one.right / one.canaries for one in guesses]
    noise = family.least_refuted(
        lambda trade_off: refuted_by_runs(shares, trade_off.most_right(), 1.0 - confidence)
    )
    epsilon = 0.0 if noise == math.inf else family.epsilon(noise)
    return Finding(epsilon, sum(one.guesses for one in guesses), sum(one.right for one in guesses))


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


def _tries(scores: Scores, included: Coins) -> list[Guesses]:
    """For each part of the canaries: as many "in" guesses, for the highest scores, as "out" guesses."""
    return [_guess(scores, included, max(1, len(scores) // (2 * part))) for part in _PARTS]


def _guess(scores: Scores, included: Coins, each: int) -> Guesses:
    """`each` guesses of "in" for the highest scores, and `each` of "out" for the lowest."""
    if len(scores) < 2:
        raise ConfigError(
            f"canaries = {len(scores)}: expected two at least, one to be guessed in and one out."
        )
    if not np.isfinite(scores).all():
        raise AccountingError(
            "Scores of canaries are not finite: training diverged. Lower the learning rate."
        )
    order = np.argsort(scores, kind="stable")
    right = int(included[order[-each:]].sum() + (~included[order[:each]]).sum())
    return Guesses(len(scores), 2 * each, right)
