"""Finds the least number that a budget allows, with few evaluations of an expensive cost."""

import math
from bisect import bisect_left
from collections.abc import Callable


def least_within(
    cost: Callable[[int], float], budget: float, low: int, high: int, position: Callable[[int], float]
) -> int:
    """The least integer in (low, high] whose cost is at most `budget`; the cost of `low` must be above it.

    The cost never rises with the integer, and that of `high` is within the budget. position: grows with the
    integer; the logarithm of the cost should be close to a straight line over it. It only affects the number
    of evaluations: about 5 after those of both ends. The method is the Illinois variant of regula falsi.
    """
    above, below = _log_excess(cost(low), budget), _log_excess(cost(high), budget)
    moved = ""
    while high - low > 1:
        share = above / (above - below)
        aim = position(low) + share * (position(high) - position(low))
        guess = bisect_left(range(low + 1, high - 1), aim, key=position) + low + 1
        excess = _log_excess(cost(guess), budget)
        if excess > 0.0:
            below = below / 2 if moved == "low" else below
            low, above, moved = guess, excess, "low"
        else:
            above = above / 2 if moved == "high" else above
            high, below, moved = guess, excess, "high"
    return high


def _log_excess(cost: float, budget: float) -> float:
    """log(cost / budget), > 0 if and only if cost > budget; cut at -3 and 3, as a cost may be 0 or inf.

    Only a cost of 0 is within a budget of 0.
    """
    if budget == 0.0:
        return 3.0 if cost > 0.0 else -3.0
    ratio = cost / budget
    if cost > budget:
        return min(max(math.log(ratio), 1e-9), 3.0)
    return max(math.log(ratio), -3.0) if ratio > 0.0 else -3.0  # the ratio of a tiny cost may round to 0
