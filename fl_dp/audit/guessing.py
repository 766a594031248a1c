"""Guess from scores which canaries were in, and bound epsilon by how many guesses are right."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fl_dp.audit.bound import epsilon_lower_bound
from fl_dp.errors import AccountingError, ConfigError

# 2: guess one half of the canaries, and so on. Many guesses prove a small epsilon more surely, few can prove
# a larger one. All are tried; each gets an equal share of the error probability.
_PARTS = (2, 8, 32)


@dataclass(frozen=True, slots=True)
class Finding:
    """The largest lower bound found: `epsilon`, from `right` right ones of `guesses` guesses."""

    epsilon: float
    guesses: int
    right: int


def find_epsilon(
    scores: NDArray[np.float64], included: NDArray[np.bool_], delta: float, confidence: float = 0.95
) -> Finding:
    """A lower bound of epsilon at `delta`, above the truth with probability 1 - confidence at most.

    scores: (m,) one for each canary, high for those that look included; included: (m,) the coins.
    Several numbers of guesses are tried and the best is taken, after seeing which were right. Each is
    therefore computed at a share of the error probability (Bonferroni).
    Raises ConfigError for fewer than two canaries, AccountingError for scores that are not finite.
    """
    if len(scores) < 2:
        raise ConfigError(
            f"canaries = {len(scores)}: expected two at least, one to be guessed in and one out."
        )
    if not np.isfinite(scores).all():
        raise AccountingError(
            "Scores of canaries are not finite: training diverged. Lower the learning rate."
        )
    order = np.argsort(scores, kind="stable")
    share = 1.0 - (1.0 - confidence) / len(_PARTS)
    findings = []
    for part in _PARTS:
        each = max(1, len(scores) // (2 * part))  # as many guesses of in as of out
        right = int(included[order[-each:]].sum() + (~included[order[:each]]).sum())
        bound = epsilon_lower_bound(len(scores), 2 * each, right, delta, share)
        findings.append(Finding(bound, 2 * each, right))
    return max(findings, key=lambda finding: finding.epsilon)
