"""Guesses from scores which canaries were in, and bounds epsilon by the number of right guesses."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fl_dp.audit.f_dp import LeastWrong, TradeOff, refuted, refuted_by_runs
from fl_dp.audit.noise_family import NoiseFamily
from fl_dp.errors import AccountingError, ConfigError

# 2: guess one half of the canaries, and so on. Many guesses prove a small epsilon more surely; few can prove
# a larger one. All are tried, and the best is taken after seeing which were right. So each gets an equal
# share of the error probability (Bonferroni).
_PARTS = (2, 8, 32)

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


def find_epsilon(scores: Scores, included: Coins, family: NoiseFamily, confidence: float = 0.95) -> Finding:
    """The epsilon of the member of `family` with the least noise that the guesses refute; 0.0 if none.

    By Mahloujifar et al. 2024 (`f_dp.py`). If the mechanism is a member, its epsilon is below the answer with
    probability 1 - confidence at most. If not, the answer tells which members' trade-offs it cannot have.
    scores: (m,) one for each canary, high if it looks included; included: (m,) the coins.
    Raises ConfigError for fewer than two canaries, AccountingError for scores that are not finite.
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
    """As `find_epsilon`, from independent runs with their own coins, where every coin is guessed.

    The half of a run's canaries with the higher scores is guessed to be in. See `refuted_by_runs`.
    """
    guesses = [_guess(scores, included, len(scores) // 2) for scores, included in runs]
    shares = [one.right / one.canaries for one in guesses]
    noise = family.least_refuted(
        lambda trade_off: refuted_by_runs(shares, trade_off.most_right(), 1.0 - confidence)
    )
    epsilon = 0.0 if noise == math.inf else family.epsilon(noise)
    return Finding(epsilon, sum(one.guesses for one in guesses), sum(one.right for one in guesses))


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
