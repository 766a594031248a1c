"""Numbers as the page writes them. An epsilon is rounded up, never shown below the computed value."""

import math

from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.wording import duration

UNKNOWN = "not known"
INFINITE = "infinite"
NOT_USED = "not used"


def epsilon(value: float | None) -> str:
    """Rounded up, with two decimals; INFINITE if no epsilon holds."""
    return INFINITE if value is None or math.isinf(value) else rounded_up(value)


def known_epsilon(value: float | None) -> str:
    return UNKNOWN if value is None else epsilon(value)


def number(value: float | None) -> str:
    """Four digits, or a whole number."""
    if value is None:
        return UNKNOWN
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def measured(value: float | None) -> str:
    """A metric or a loss."""
    return "not measured" if value is None else f"{value:.4f}"


def seconds(value: float | None) -> str:
    return UNKNOWN if value is None else duration(value)


def moment(text: str) -> str:
    """A UTC time in ISO 8601 in readable form: "2026-01-01 00:00:00"."""
    return text.removesuffix("+00:00").replace("T", " ", 1) or UNKNOWN


def best_guess(value: float, delta: float) -> float:
    """The largest chance of a right guess that starts at even odds: (e^epsilon + delta) / (1 + e^epsilon).

    The false alarms of any test plus e^epsilon times its misses are at least 1 - delta, and the other way
    round (Kairouz, Oh, Viswanath 2015).
    """
    return 1.0 - (1.0 - delta) * math.exp(-value) / (1.0 + math.exp(-value))


def percent(share: float) -> str:
    """In per cent, rounded up."""
    tenths = math.ceil(1000 * share)
    return "almost 100 %" if tenths >= 1000 else f"{tenths / 10:.1f} %"
