"""f-DP auditing: bounds the number of right guesses under a whole trade-off curve, in one run or several.

Mahloujifar, Melis, Chaudhuri 2024, "Auditing f-Differential Privacy in One Run" (arXiv 2410.22235).
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fl_dp.accounting.privacy_loss import Array
from fl_dp.errors import ConfigError

LeastWrong = Callable[[float], float]
_ROUNDING = 1e-9  # relative; thousands of additions in double precision err by far less


@dataclass(frozen=True, slots=True)
class TradeOff:
    """A mechanism's trade-off curve for any test about one record, as straight lines.

    For each epsilon_k (k,), ascending, and its delta_k (k,): if an event has probability x when the record's
    coin shows the other side, its probability is at most delta_k + e^epsilon_k x. The lines need not be the
    best: each line that holds gives a sound bound.
    """

    epsilons: Array
    deltas: Array

    def most_right(self) -> float:
        """The largest expected share of right guesses if every coin is guessed.

        In `refuted`'s terms r_0 + w_0 = 1 and r_0 <= delta + e^eps w_0, so r_0 (1 + e^eps) <= delta + e^eps.
        """
        odds = np.exp(self.epsilons)
        return float(np.min((self.deltas + odds) / (1.0 + odds)))

    def least_wrong(self) -> LeastWrong:
        """The lines solved for x: an event's least probability on the other side of a coin."""
        order = np.argsort(-self.epsilons)  # the order in which they lead as the probability grows
        slopes = np.exp(-self.epsilons[order])
        offsets = slopes * self.deltas[order]
        meets = (offsets[1:] - offsets[:-1]) / (slopes[1:] - slopes[:-1])
        lines: list[tuple[float, float]] = list(zip(slopes.tolist(), offsets.tolist(), strict=True))
        starts = np.maximum.accumulate(meets).tolist()

        def least(probability: float) -> float:
            slope, offset = lines[bisect_right(starts, probability)]
            return max(0.0, slope * probability - offset)

        return least


def refuted_by_runs(shares: Sequence[float], most_right: float, level: float) -> bool:
    """Whether independent runs refute that every expected share of right guesses is at most `most_right`.

    shares: (T,) for each run, with its own coins, the share of all canaries whose coin was guessed right.
    The product of shares[t] / most_right has an expectation of at most 1, since the runs are independent, and
    is 1 / level or more with probability at most `level` (Markov). Within a run the canaries' outcomes may
    depend on one another in any way. A single run must allow for that (see `refuted`), and proves less.
    """
    if not 0.0 < level < 1.0:
        raise ConfigError(f"Expected level={level} in (0, 1).")
    if min(shares) <= 0.0:
        return False
    return math.fsum(math.log(share / most_right) for share in shares) > -math.log(level) + _ROUNDING


def refuted(canaries: int, guesses: int, right: int, least_wrong: LeastWrong, level: float) -> bool:
    """Whether `right` or more right guesses have a probability below `level` under the trade-off.

    A fair coin for each of m = `canaries` records decides whether it is included. Somebody sees the output,
    and from it alone chooses g = `guesses` of the coins and guesses them. N are right, with p_l = P[N = l].

    1. Fix a record j, its coin, and the other coins. "j is guessed to show this side, and i - 1 or more other
       guesses are right" is an event of the output alone. If the coin shows that side, it says: j is right,
       and N >= i. If the coin shows the other side: j is wrong, and N >= i - 1. One is at most
       delta + e^eps of the other, for every line (eps, delta) of the trade-off, in either direction.
    2. Lines survive averages: over the coins, and over j. With the shares of records that are right, and
       wrong, while N >= i,
           r_i = sum over l >= i of p_l l / m,    w_i = sum over l >= i of p_l (g - l) / m,
       therefore r_i <= delta + e^eps w_(i-1): w_(i-1) >= least_wrong(r_i) for i = 1..g.
    3. By their definition r_(i-1) = r_i + (i-1) / (g-i+1) (w_(i-1) - w_i), and r_0 + w_0 = g / m.

    Suppose P[N >= v] >= level, v = right. Start at R_v = level v / m and W_v = level (g - v) / m, and go down
    by W_i = max(W_(i+1), least_wrong(R_(i+1))), R_i = R_(i+1) + i / (g-i) (W_i - W_(i+1)). Then for every i
        (a) r_i >= R_i,  and  (b) (g-i) (r_i - R_i) >= i (w_i - W_i).
    At i = v: r_v >= P[N >= v] v / m, and (g-v) r_v >= v w_v since each l >= v; equality for R, W. From i+1 to
    i: (b) asks that r_(i+1) - R_(i+1) >= i / (g-i) (w_(i+1) - W_(i+1)), which (b) at i+1 gives if the right
    side is positive and (a) if not. (a) follows from (b) if w_i >= W_i. If w_i < W_i, then
    W_i = W_(i+1), because least_wrong grows: R_i = R_(i+1) <= r_(i+1) <= r_i.
    At the end r_0 + w_0 >= R_0 + W_0: by (a) if w_0 >= W_0; if not, W has never grown, by the same argument,
    and R_0 + W_0 = level g / m <= r_v + w_v. So R_0 + W_0 > g / m is a contradiction, and P[N >= v] < level.
    The paper's algorithm is this recursion, of its theorem for guesses that may abstain. The least v that is
    refuted has P[N >= v] < level, and what is refuted for v is refuted for every larger one (a sequence R, W
    that allows P[N >= v + 1] >= level allows P[N >= v] >= level too). So the test errs with that probability.
    """
    if not 0 <= right <= guesses <= canaries or guesses == 0:
        raise ConfigError(f"Expected 0 <= right={right} <= guesses={guesses} <= canaries={canaries}, > 0.")
    if not 0.0 < level < 1.0:
        raise ConfigError(f"Expected level={level} in (0, 1).")
    most = guesses / canaries * (1.0 + _ROUNDING)
    correct, wrong = level * right / canaries, level * (guesses - right) / canaries
    for i in range(right - 1, -1, -1):
        least = max(wrong, least_wrong(correct))
        correct += i / (guesses - i) * (least - wrong)
        wrong = least
        if correct + wrong > most:
            return True
    return False
