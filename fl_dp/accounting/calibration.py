"""Which noise keeps a plan within a budget, and how many of a plan's steps still fit one."""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import replace

from fl_dp.accounting.accountant import DEFAULT_ACCOUNTANT
from fl_dp.accounting.epsilon import MAX_EPSILON, MAX_STEPS, compute_epsilon, in_digits
from fl_dp.accounting.events import merge
from fl_dp.errors import AccountingError, ConfigError
from fl_dp.records import Entry

# Noise multipliers of 4 significant digits are numbered upwards; 1.000 is number 0.
_PER_DECADE = 9000
_LEAST_NOISE, _MOST_NOISE = 2.0**-5, 2.0**13


def calibrate_noise(
    sample_rate: float,
    steps: int,
    epsilon: float,
    delta: float,
    *,
    rounds: int = 1,
    spent: Iterable[Entry] = (),
    accountant: str = DEFAULT_ACCOUNTANT,
) -> float:
    """The smallest noise multiplier with which `spent` and the plan cost at most `epsilon` at `delta`.

    The plan has `steps` steps in each of `rounds` rounds, those in which this client takes part. The answer
    has 4 significant digits, so that equal clients get equal, short numbers; a thousandth less would not be
    enough. An infinite budget gets the least noise that is computed, 1/32. A finite budget that even this
    noise would not use up, or above `MAX_EPSILON`, is refused; the error names the largest. The noise grows
    with steps, rates and what is spent, and falls with epsilon and delta; an accountant whose grid changes
    with the history ("pld") keeps this order to a thousandth. Raises AccountingError if no noise multiplier
    up to 8192 is enough.
    """
    if rounds < 1:
        raise ConfigError(f"Expected rounds={rounds} >= 1.")
    _require_number(epsilon)
    if MAX_EPSILON < epsilon < math.inf:
        raise _too_large(epsilon, MAX_EPSILON)
    spent, plan = merge(spent), Entry(sample_rate, 1.0, steps * rounds)

    def cost(number: int) -> float:
        return compute_epsilon((*spent, replace(plan, noise_multiplier=_noise(number))), delta, accountant)

    already = compute_epsilon(spent, delta, accountant)
    start = 1.0 if accountant == "rdp" else _noise_by_rdp(plan, epsilon, delta, spent)
    bracket = _bracket(cost, epsilon, start) if already <= epsilon else None
    if bracket is None:
        raise AccountingError(
            f"No noise multiplier up to {_MOST_NOISE:g} keeps {plan.steps} more steps at sample rate "
            f"{sample_rate:.4g} within epsilon={epsilon} at delta={delta}; {in_digits(already, 4)} is spent "
            "already. Plan fewer steps, smaller batches or a larger epsilon."
        )
    low, high = bracket
    if low == high:
        if cost(low) < epsilon < math.inf:
            raise _too_large(epsilon, cost(low))
        return _LEAST_NOISE
    return _noise(least_within(cost, epsilon, low, high, position=lambda number: math.log(_noise(number))))


def steps_that_fit(
    planned: Entry,
    epsilon: float,
    delta: float,
    *,
    spent: Iterable[Entry] = (),
    accountant: str = DEFAULT_ACCOUNTANT,
) -> int:
    """The largest number of the planned steps with which the total stays within `epsilon` at `delta`.

    It takes one computation if all fit, two if none does, else about seven.
    """
    _require_number(epsilon)
    if planned.steps < 1 or epsilon == math.inf:
        return max(planned.steps, 0)
    most, spent = min(planned.steps, MAX_STEPS), merge(spent)  # with one step more, epsilon is infinite

    def cost(missing: int) -> float:
        taken = planned.taking(most - missing)
        return compute_epsilon((*spent, taken), delta, accountant)

    if cost(0) <= epsilon:
        return most
    if cost(most - 1) > epsilon:
        return 0
    missing = least_within(cost, epsilon, 0, most - 1, position=lambda i: -math.log(most - i))
    return most - missing


def _require_number(epsilon: float) -> None:
    if math.isnan(epsilon):
        raise AccountingError("Expected epsilon=nan to be a number >= 0; name the budget that must hold.")


def _noise_by_rdp(plan: Entry, epsilon: float, delta: float, spent: tuple[Entry, ...]) -> float:
    """RDP's answer: the start of the search with a slower accountant.

    It takes a hundredth of the time, and is usually a little larger than the final answer.
    """
    try:
        return calibrate_noise(plan.sample_rate, plan.steps, epsilon, delta, spent=spent, accountant="rdp")
    except AccountingError:  # RDP has no answer; the tighter accountant may still have one
        return 1.0


def _bracket(cost: Callable[[int], float], epsilon: float, start: float) -> tuple[int, int] | None:
    """The numbers of two noise multipliers, about a quarter apart: the second is enough, the first is not.

    Both are the number of the least multiplier allowed, if this one is enough; None if the largest is not.
    """
    noise, least = start, _number(_LEAST_NOISE)
    while cost(_number(noise)) > epsilon:
        if noise == _MOST_NOISE:
            return None
        noise = min(1.25 * noise, _MOST_NOISE)
    high = _number(noise)
    while high > least:
        noise = max(noise / 1.25, _LEAST_NOISE)
        low = _number(noise)
        if cost(low) > epsilon:
            return low, high
        high = low
    return high, high


def _noise(number: int) -> float:
    decade, mantissa = divmod(number, _PER_DECADE)
    return float(f"{1000 + mantissa}e{decade - 3}")


def _number(noise_multiplier: float) -> int:
    """The number of the nearest noise multiplier with 4 digits."""
    decade = math.floor(math.log10(noise_multiplier))
    return decade * _PER_DECADE + round(noise_multiplier * 10.0 ** (3 - decade)) - 1000


def _too_large(epsilon: float, largest: float) -> AccountingError:
    return AccountingError(
        f"epsilon={epsilon:g}: no noise that can be computed costs that much. The largest epsilon is "
        f"{math.floor(100 * largest) / 100:g}, and noise multipliers start at {_LEAST_NOISE:g}. Use a "
        f"smaller epsilon, or set the noise multiplier yourself."
    )


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
