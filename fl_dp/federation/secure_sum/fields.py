"""Dataclasses as fields that can travel, checked on receipt: type, length and range of each.

A field's annotation says what an honest sender can have put there; what a stranger sent is a ConfigError in
words before anything uses it. Lists travel for tuples.
"""

import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from fl_dp.errors import ConfigError
from fl_dp.records import MOST_MEMBERS

_HEX = frozenset("0123456789abcdef")
Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class Within:
    """Bounds of a number, or of the length of a text or of bytes; both are allowed."""

    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Digits:
    """A text of exactly `count` hexadecimal digits, in small letters."""

    count: int


Bound = Within | Digits
Value = str | int | float | bytes | list[str] | list[int] | list[float] | list[bytes]


def exactly(length: int) -> Within:
    """Bytes of this length alone."""
    return Within(length, length)


def to_fields(message: Any) -> dict[str, Value]:
    """The fields of a dataclass, by name."""
    values = {field.name: getattr(message, field.name) for field in fields(message)}
    return {name: list(one) if isinstance(one, tuple) else one for name, one in values.items()}


def from_fields(kind: type[Kind], found: Mapping[str, Any]) -> Kind:
    """The dataclass `kind`; ConfigError unless `found` has its fields alone, each as its annotation says."""
    hints = typing.get_type_hints(kind, include_extras=True)
    if set(found) != set(hints):
        raise ConfigError(
            f"{kind.__name__} with fields that do not belong together: "
            f"{sorted(map(str, set(found) - set(hints)))[:3]} not known, "
            f"{sorted(set(hints) - set(found))[:3]} missing."
        )
    return kind(**{name: _value(kind, name, found[name], hint) for name, hint in hints.items()})


def _value(kind: type, name: str, found: Any, hint: Any) -> Any:
    plain, bound = typing.get_args(hint)
    if typing.get_origin(plain) is not tuple:
        fits = _fits(found, plain, bound)
    elif fits := isinstance(found, list | tuple) and len(found) <= MOST_MEMBERS:
        each = typing.get_args(plain)[0]
        fits = all(_fits(one, each, bound) for one in found)
        found = tuple(found)
    if not fits:
        raise ConfigError(f"{kind.__name__} with an impossible {name}: expected {plain}, {bound}.")
    return found


def _fits(found: Any, kind: Any, bound: Bound) -> bool:
    if not isinstance(found, kind) or isinstance(found, bool):  # a bool is an int to Python
        return False
    if isinstance(bound, Digits):
        return len(found) == bound.count and _HEX.issuperset(found)
    size = len(found) if isinstance(found, str | bytes) else found
    return math.isfinite(size) and bound.least <= size <= bound.most
