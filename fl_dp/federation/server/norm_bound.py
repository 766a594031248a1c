"""Bounds how far an honest client's update can move the weights, from public numbers only.

With w_0 the weights that were sent, a step of DP-SGD with momentum b is

    v <- b v + (S + N) / B,    w <- P(w - rate v),

where S is the sum of K gradients of length C at most, N the noise, B the expected batch, and P the projection
to +-MOST_WEIGHT.

Step by step. P moves no two points apart and keeps w_0, so |w_t - w_0| grows by at most rate |v| in a step.
|v| is at most the largest |S + N| / B times 1 + b + b^2 + ..., over this round and all rounds from which a
momentum is kept. So after T steps in which K <= m and |N| <= sigma C l,

    (1)    |w_T - w_0|  <=  rate / (1 - b)  T C (m + sigma l) / B.

All steps together. If w_0 is further than (1) from +-MOST_WEIGHT, P changes nothing. If the momentum also
began at 0, w_T - w_0 is a sum of all S + N, each times -rate / B and a number from 0 to 1 / (1 - b). The N in
such a sum form one Gaussian vector of at most sqrt(T) times the deviation. With M at least the sum of all K,

    (2)    |w_T - w_0|  <=  rate / (1 - b)  C (M + sqrt(T) sigma l) / B.

With fedprox, w - rate pull (w - w_0) is between w and w_0 for rate pull <= 1, so without momentum both hold.

Each of these events fails with probability at most p:

- K < m, for K binomial with n records and sample rate q: P(K >= m) <= exp(-n KL(m/n || q)) (Chernoff 1952;
  Boucheron, Lugosi, Massart 2013, section 2.2). M is the same for T n records.
- l = sqrt(d) + sqrt(2 ln(1/p)): the length is a 1-Lipschitz function of d Gaussian numbers, whose mean is at
  most sqrt(d) (Boucheron, Lugosi, Massart 2013, theorem 5.6; Laurent, Massart 2000, lemma 1, for its square).

p is such that the chance that any event fails, over all clients and rounds, is at most 1e-9. The factor LOOSE
covers what a machine adds: noise is larger by up to 1.4 % (`engine/noise/grid.py`), a sum by 1 %. Rounding of
the weights is added separately. n is the declared size; a client with more records would draw more.
"""

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from fl_dp.federation.wire.arrays import ArraySpec, NDArray
from fl_dp.records import KEEP, MOST_WEIGHT, RoundPlan

FAILURE = 1e-9  # probability that any honest update of a run is longer than its bound
LOOSE = 1.015
_PULLED, _PLAIN = "fedprox", "fedavg"


def is_bounded(plan: RoundPlan) -> bool:
    """Whether the bound is proven for such a round: SGD with clipped gradients, from the weights sent."""
    if not plan.private or plan.optimizer != "sgd" or plan.optimizer_settings:
        return False
    if plan.local_algorithm == _PULLED:
        return plan.momentum == 0 and plan.learning_rate * plan.pull <= 1
    return plan.local_algorithm == _PLAIN


def norm_bound(
    plan: RoundPlan, public_size: int, steps: int, numbers: int, start: float, eps: float, chances: float
) -> float:
    """The greatest length of an honest client's update; infinite where no bound is proven.

    public_size: the client's; steps: those it took. numbers: of real numbers in the update; start: length of
    the weights that were sent; eps: their type's machine epsilon. chances: the number of steps in the run,
    over all clients and rounds.
    """
    if not is_bounded(plan):
        return math.inf
    surprise = math.log(4 * chances / FAILURE)  # ln(1/p), for four events a step
    rate = plan.expected_batch_size / public_size
    bound, sigma = plan.max_grad_norm, plan.noise_multiplier
    noise = sigma * (math.sqrt(numbers) + math.sqrt(2 * surprise))
    scale = plan.learning_rate / (1 - plan.momentum) * bound / plan.expected_batch_size

    def with_rounding(way: float) -> float:
        return LOOSE * scale * way * (1 + steps * eps) + steps * eps * start

    by_steps = with_rounding(steps * (largest_draw(public_size, rate, surprise) + noise))
    if start + by_steps >= MOST_WEIGHT or (plan.momentum and plan.optimizer_state == KEEP):
        return by_steps
    total = largest_draw(steps * public_size, rate, surprise)
    return min(by_steps, with_rounding(total + math.sqrt(steps) * noise))


@lru_cache(maxsize=1024)
def largest_draw(size: int, rate: float, surprise: float) -> int:
    """The least m with P(K >= m) <= exp(-surprise) by Chernoff's bound, for K binomial; at most `size`."""
    if rate >= 1.0:
        return size
    low, high = math.floor(size * rate), size  # at low the bound is 1
    while high - low > 1:
        middle = (low + high) // 2
        if _exponent(middle, size, rate) >= surprise:
            high = middle
        else:
            low = middle
    return high


def _exponent(count: int, size: int, rate: float) -> float:
    """size KL(count / size || rate) if count / size > rate, else 0."""
    share = count / size
    if share <= rate:
        return 0.0
    rest = (1 - share) * (math.log1p(-share) - math.log1p(-rate)) if share < 1 else 0.0
    return size * (share * math.log(share / rate) + rest)


def real_numbers(specs: Mapping[str, ArraySpec]) -> int:
    """The number of real numbers in such arrays; a complex number counts as two."""
    return sum(math.prod(one.shape) * (1 + (one.dtype.kind == "c")) for one in specs.values())


def coarsest(specs: Mapping[str, ArraySpec]) -> float:
    return max((float(np.finfo(one.dtype).eps) for one in specs.values()), default=0.0)


def length_of(arrays: Mapping[str, NDArray]) -> float:
    """The L2 norm over all arrays, in float64, which no update within MOST_WEIGHT overflows."""
    return math.sqrt(sum(float(np.linalg.norm(array.reshape(-1))) ** 2 for array in arrays.values()))
