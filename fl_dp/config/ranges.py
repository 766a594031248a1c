"""Ranges of numbers in the settings, declared beside each setting.

Every number of a config has one. So none reaches a library that cannot hold it, and none asks for more memory
or time than any machine has.
"""

import dataclasses
import types
import typing
from functools import cache
from typing import Annotated, Any

from fl_dp.decoding import Range
from fl_dp.records import MOST_RECORDS

MOST_SEED = 2**63 - 1  # the largest that messages and libraries take
MOST_CLIENTS = 10**6
Clients = Annotated[int, Range(1, MOST_CLIENTS)]
Rounds = Annotated[int, Range(1, 10**6)]
Examples = Annotated[int, Range(1, 2**30)]  # in one step
Mebibytes = Annotated[int, Range(1, 2**24)]  # 16 TiB
Side = Annotated[int, Range(0, 2**16)]  # pixels, tokens or ranks
Seed = Annotated[int, Range(0, MOST_SEED)]
Records = Annotated[int, Range(1, MOST_RECORDS)]
Seconds = Annotated[float, Range(0, 1e8, open=True)]  # three years: no system call waits longer
Positive = Annotated[float, Range(0, 1e12, open=True)]


def range_problem(bounds: Range, value: Any) -> str:
    """The problem with a number outside its range; else empty."""
    if type(value) not in (int, float) or bounds.holds(value):
        return ""
    return f"{shown(value)}: expected {bounds.in_words(whole=isinstance(value, int))}"


@cache
def ranges_of(kind: type) -> dict[str, Range]:
    """The range of each number, by field; TypeError for a number without one."""
    hints = typing.get_type_hints(kind, include_extras=True)
    found: dict[str, Range] = {}
    for field in dataclasses.fields(kind):
        bounds = [one for part in _parts(hints[field.name]) for one in getattr(part, "__metadata__", ())]
        numbers = [part for part in _parts(hints[field.name]) if _plain(part) in (int, float)]
        if len(bounds) != len(numbers):
            raise TypeError(f"{kind.__name__}.{field.name}: a number needs a range.")
        if bounds:
            (found[field.name],) = bounds
    return found


def _parts(hint: Any) -> tuple[Any, ...]:
    """The types of a union, else the type itself."""
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return typing.get_args(hint) if is_union else (hint,)


def _plain(hint: Any) -> Any:
    return typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint


def shown(value: Any) -> str:
    """As it was written; shortened for an integer that is too long for a text."""
    long = isinstance(value, int) and abs(value) >= 10**30
    return "a number of more than 30 digits" if long else repr(value)
