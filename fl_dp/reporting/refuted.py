"""Payments made under a claim that was later refuted: marked wherever they show, and never repriced.

docs/advisories.md says what was refuted, and what to do.
"""

from fl_dp.records import REFUTED

ADVICE = "paid under a rounding assumption that was refuted since: see docs/advisories.md"
HOLDS_NOT = "its epsilon is as it was charged, and may be far below the true one"
_MARK = " (refuted)"


def mark(arithmetic: str) -> str:
    """A mark after a word or an epsilon of an account; empty unless a round was paid under `REFUTED`."""
    return _MARK if arithmetic == REFUTED else ""


def arithmetic_words(arithmetic: str) -> str:
    """An account's arithmetic in words."""
    return arithmetic + mark(arithmetic)
