"""Parses `adaptive-clipping`: quantile:SHARE, or quantile:SHARE:RATE."""

import re
from dataclasses import dataclass

from fl_dp.config.flat import require

KEY = "adaptive-clipping"
REACH = 1000.0  # the bound stays within this factor of the first one
_RATE = 0.2  # Andrew, Thakkar, McMahan, Ramaswamy 2021, section 3
_MOST_RATE = 2.0
_PLAIN = re.compile(r"(?=.{1,24}\Z)[0-9]*\.?[0-9]+(e-?[0-9]+)?", re.ASCII)
_EXPECTED = (
    "quantile:SHARE, where SHARE is the fraction of gradients that should stay within the bound, such as "
    f"quantile:0.5; or quantile:SHARE:RATE, with a RATE above 0 and at most {_MOST_RATE:g}; empty: the "
    "bound is fixed"
)


@dataclass(frozen=True, slots=True)
class Adaptation:
    """quantile: share of examples whose gradients should be within the bound, above 0 and below 1.

    rate: how fast the bound follows; a step multiplies it by e^(rate * (quantile - share seen)).
    """

    quantile: float
    rate: float = _RATE


def adaptation_of(text: str) -> Adaptation | None:
    """What `text` asks for; None if it is empty, SettingsError for any other form."""
    if not text:
        return None
    kind, *words = text.split(":")
    numbers = [number for word in words if (number := _number(word)) is not None]
    sound = kind == "quantile" and len(numbers) == len(words) and 1 <= len(words) <= 2
    require(sound and 0 < numbers[0] < 1, KEY, text[:64], _EXPECTED)
    require(len(numbers) == 1 or 0 < numbers[1] <= _MOST_RATE, KEY, text[:64], _EXPECTED)
    return Adaptation(*numbers)


def _number(word: str) -> float | None:
    """A plain number only: a site's operator reads a plan's words and has to approve them.

    Other text that float() reads, such as line ends or a million digits, could hide the question.
    """
    return float(word) if _PLAIN.fullmatch(word) else None
