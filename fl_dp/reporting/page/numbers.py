"""Numbers as the page writes them. An epsilon is rounded up: it is never shown below what was computed."""

import math

from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.refuted import mark
from fl_dp.reporting.wording import duration

UNKNOWN = "not known"
INFINITE = "infinite"
_MOST_RATIO = 10**6


def epsilon(value: float | None, *, private: bool = True) -> str:
    """Two decimals, rounded up; INFINITE where none holds."""
    if not private or value is None or math.isinf(value):
        return INFINITE
    return rounded_up(value)


def charged(value: float | None, arithmetic: str, *, private: bool = True) -> str:
    """`epsilon`, marked where a round was paid under an arithmetic that was refuted."""
    text = epsilon(value, private=private)
    return text if text == INFINITE else text + mark(arithmetic)


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
    """A date and time in UTC as files have it, ISO 8601, fit to be read: "2026-01-01 00:00:00"."""
    return text.removesuffix("+00:00").replace("T", " ", 1) or UNKNOWN


def odds_ratio(value: float) -> str:
    """e^epsilon, rounded up."""
    if value > math.log(_MOST_RATIO):
        return f"more than {_MOST_RATIO:,}"
    ratio = math.exp(value)
    return f"{math.ceil(100 * ratio) / 100:.2f}" if ratio < 100 else f"{math.ceil(ratio):,}"


def best_guess(value: float, delta: float) -> float:
    """The largest chance of a right guess that starts at even odds: (e^epsilon + delta) / (1 + e^epsilon)."""
    return 1.0 - (1.0 - delta) * math.exp(-value) / (1.0 + math.exp(-value))


def percent(share: float) -> str:
    """In percent, rounded up."""
    tenths = math.ceil(1000 * share)
    return "almost 100 %" if tenths >= 1000 else f"{tenths / 10:.1f} %"
