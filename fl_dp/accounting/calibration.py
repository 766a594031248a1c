"""The inverse questions: which noise keeps a plan within a budget, and how many steps still fit."""

import math
from collections.abc import Callable, Iterable

from fl_dp.accounting.accountants import Accountant, compute_epsilon
from fl_dp.accounting.events import merge
from fl_dp.errors import AccountingError
from fl_dp.records import Entry

_LEAST_NOISE, _MOST_NOISE = 2.0**-4, 2.0**13
_DIGITS = 4


def calibrate_noise(
    sample_rate: float,
    steps: int,
    epsilon: float,
    delta: float,
    *,
    spent: Iterable[Entry] = (),
    accountant: Accountant = "pld",
) -> float:
    """The least noise multiplier with which `spent` and `steps` new steps cost at most `epsilon` at `delta`.

    Least on a grid of 4 significant digits, hence at most 0.2 % above the true one and never below it: equal
    clients get equal, short numbers. At least 1/16, whatever the budget. Raises AccountingError when no noise
    multiplier up to 8192 is enough.
    """
    spent = merge(spent)

    def cost(noise_multiplier: float) -> float:
        return compute_epsilon((*spent, Entry(sample_rate, noise_multiplier, steps)), delta, accountant)

    already = compute_epsilon(spent, delta, accountant)
    power = _least_power_of_two(cost, epsilon) if already <= epsilon else None
    if power is None:
        raise AccountingError(
            f"No noise multiplier up to {_MOST_NOISE:g} keeps {steps} more steps at sample rate "
            f"{sample_rate:.4g} within epsilon={epsilon} at delta={delta}; {already:.4g} is spent already. "
            "Plan fewer steps, smaller batches or a larger epsilon."
        )
    return _least_on_grid(cost, epsilon, power / 2, power) if power > _LEAST_NOISE else power


def _least_power_of_two(cost: Callable[[float], float], epsilon: float) -> float | None:
    """The least one between the limits whose cost is within epsilon; None when there is none."""
    noise = 1.0
    while cost(noise) > epsilon:
        if noise == _MOST_NOISE:
            return None
        noise *= 2
    while noise > _LEAST_NOISE and cost(noise / 2) <= epsilon:
        noise /= 2
    return noise


def _least_on_grid(cost: Callable[[float], float], epsilon: float, low: float, high: float) -> float:
    """The least decimal of `_DIGITS` digits within epsilon, given that low is not and high is.

    The Illinois variant of regula falsi, on the logarithm of the cost, which is close to a power law.
    """
    decimals = _DIGITS - 1 - math.floor(math.log10(low))
    scale = 10.0**decimals
    too_low, enough = math.floor(low * scale), math.ceil(high * scale)
    above, below = _log_excess(cost(low), epsilon), _log_excess(cost(high), epsilon)
    moved = ""
    while enough - too_low > 1:
        guess = too_low + round((enough - too_low) * above / (above - below))
        guess = min(max(guess, too_low + 1), enough - 1)
        excess = _log_excess(cost(round(guess / scale, decimals)), epsilon)
        if excess > 0.0:
            below = below / 2 if moved == "low" else below
            too_low, above, moved = guess, excess, "low"
        else:
            above = above / 2 if moved == "high" else above
            enough, below, moved = guess, excess, "high"
    return round(enough / scale, decimals)


def _log_excess(cost: float, epsilon: float) -> float:
    """log(cost / epsilon), > 0 if and only if cost > epsilon; within 3 of 0, as a cost may be 0 or inf."""
    if cost > epsilon:
        return min(max(math.log(cost / epsilon), 1e-9), 3.0)
    return max(math.log(cost / epsilon), -3.0) if cost > 0.0 else -3.0


def steps_that_fit(
    sample_rate: float,
    noise_multiplier: float,
    planned: int,
    epsilon: float,
    delta: float,
    *,
    spent: Iterable[Entry] = (),
    accountant: Accountant = "pld",
) -> int:
    """The largest number of steps, 0 to `planned`, with which the total stays within `epsilon` at `delta`.

    One computation when all fit, two when none does.
    """
    spent = merge(spent)

    def fits(steps: int) -> bool:
        new = Entry(sample_rate, noise_multiplier, steps)
        return compute_epsilon((*spent, new), delta, accountant) <= epsilon

    if planned < 1 or fits(planned):
        return max(planned, 0)
    if not fits(1):
        return 0
    fitting, too_many = 1, planned
    while too_many - fitting > 1:
        middle = (fitting + too_many) // 2
        fitting, too_many = (middle, too_many) if fits(middle) else (fitting, middle)
    return fitting
