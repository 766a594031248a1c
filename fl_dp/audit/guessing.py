"""Guesses from scores which canaries were included, and bounds epsilon by the number of right guesses."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fl_dp.audit.f_dp import LeastWrong, TradeOff, refuted, refuted_by_runs
from fl_dp.audit.noise_family import NoiseFamily
from fl_dp.errors import AccountingError, ConfigError

CONFIDENCE = 0.95  # of the lower bound
# 2: guess one half of the canaries, and so on. Many guesses prove a small epsilon more surely; few can prove
# a larger one. The best is chosen after seeing which were right, so each gets an equal share of the error
# probability (Bonferroni).
_PARTS = (2, 8, 32)

Scores = NDArray[np.float64]
Coins = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Finding:
    """The largest lower bound found, `epsilon`, from `guesses` guesses; `right` of them were right."""

    epsilon: float
    guesses: int
    right: int


def find_epsilon(scores: Scores, included: Coins, family: NoiseFamily) -> Finding:
    """The epsilon of the member of `family` with the least noise that the guesses refute; 0.0 if none.

    By Mahloujifar et al. 2024 (`f_dp.py`). If the mechanism is a member, its epsilon is below the answer with
    probability 1 - CONFIDENCE at most. If not, the answer tells which members' trade-offs it cannot have.
    scores: (m,) one for each canary, high if it looks included; included: (m,) the coins.
    Raises ConfigError for fewer than two canaries, AccountingError for scores that are not finite.
    """
    level = (1.0 - CONFIDENCE) / len(_PARTS)
    tries = [_guess(scores, included, max(1, len(scores) // (2 * part))) for part in _PARTS]

    def by(one: tuple[int, int], least_wrong: LeastWrong) -> bool:
        return refuted(len(scores), *one, least_wrong, level)

    def any_of_them(trade_off: TradeOff) -> bool:
        least_wrong = trade_off.least_wrong()
        return any(by(one, least_wrong) for one in tries)

    noise = family.least_refuted(any_of_them)
    if noise == math.inf:
        return Finding(0.0, *tries[0])
    least_wrong = family.trade_off(noise).least_wrong()
    proof = next(one for one in tries if by(one, least_wrong))
    return Finding(family.epsilon(noise), *proof)


def find_epsilon_in_runs(runs: Sequence[tuple[Scores, Coins]], family: NoiseFamily) -> Finding:
    """As `find_epsilon`, from independent runs with their own coins, in which every coin is guessed.

    In each run the half of the canaries with the higher scores is guessed "in". See `refuted_by_runs`.
    """
    guesses = [_guess(scores, included, len(scores) // 2) for scores, included in runs]
    shares = [right / len(scores) for (_, right), (scores, _) in zip(guesses, runs, strict=True)]
    noise = family.least_refuted(
        lambda trade_off: refuted_by_runs(shares, trade_off.most_right(), 1.0 - CONFIDENCE)
    )
    epsilon = 0.0 if noise == math.inf else family.epsilon(noise)
    return Finding(epsilon, sum(made for made, _ in guesses), sum(right for _, right in guesses))


def _guess(scores: Scores, included: Coins, each: int) -> tuple[int, int]:
    """How many are guessed, and how many of these rightly: `each` "in" for the highest scores, "out" for the
    lowest.
    """
    if len(scores) < 2:
        raise ConfigError(
            f"canaries = {len(scores)}: expected at least two, one to be guessed in and one out."
        )
    if not np.isfinite(scores).all():
        raise AccountingError(
            "Scores of canaries are not finite: training diverged. Lower the learning rate."
        )
    order = np.argsort(scores, kind="stable")
    right = int(included[order[-each:]].sum() + (~included[order[:each]]).sum())
    return 2 * each, right
