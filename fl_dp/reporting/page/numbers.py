"""Numbers as the page writes them. An epsilon is rounded up: it is never shown below what was computed."""

import math

from fl_dp.reporting.console import rounded_up

UNKNOWN = "not known"


def epsilon(value: float | None, *, private: bool = True) -> str:
    """Two decimals, rounded up; "infinite" where none holds."""
    if not private or value is None or math.isinf(value):
        return "infinite"
    return rounded_up(value)


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
    if value is None:
        return UNKNOWN
    if value < 120:
        return f"{value:.1f} s"
    if value < 7200:
        return f"{value / 60:.1f} min"
    return f"{value / 3600:.1f} h"


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def odds(value: float) -> str:
    """At which share a guess at even odds may end, in percent, rounded up: e^epsilon / (1 + e^epsilon)."""
    share = math.ceil(1000 / (1 + math.exp(-value))) / 10
    return "almost 100 %" if share >= 100 else f"{share:.1f} %"
