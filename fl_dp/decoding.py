"""Decodes untrusted input (messages, statements, claims) into frozen dataclasses.

A dataclass declares by its annotations what an honest writer can have written; nothing else is accepted.

| annotation | accepts |
|---|---|
| `str`, `bytes`, `bool` | that very type |
| `int` | an integer below 2^53, exact in every JSON reader; not true or false |
| `float` | a float, never an integer |
| `X | None` | X, or None |
| `Literal["a", "b"]` | one of these texts |
| `tuple[X, ...]` | a list or tuple of them |
| a dataclass | a table of its fields |
| `Annotated[X, Range(1, 9)]` | a number in that range, a text or bytes of a length in it, a tuple of these |
| `Annotated[str, Digits(64)]` | exactly 64 hexadecimal digits, in lower case |
| `Annotated[tuple[X, ...], AtMost(9)]` | at most 9 items |
| `Annotated[X, By(function)]` | what the function returns for it; the function raises ValueError |
"""

import dataclasses
import math
import sys
import types
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeVar

from fl_dp.clean_text import one_line
from fl_dp.errors import ConfigError

Record = TypeVar("Record")
Decoder = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Range:
    """From `least` to `most`, both included. open: `least` itself is excluded."""

    least: float
    most: float
    open: bool = False

    def holds(self, value: float) -> bool:
        """False for NaN as well."""
        return (value > self.least if self.open else value >= self.least) and value <= self.most

    def in_words(self, whole: bool) -> str:
        """For example "an integer from 1 to 100", "a number > 0 and <= 100"."""
        kind = "an integer" if whole else "a number"
        if not self.open and self.most < math.inf:
            return f"{kind} from {_short(self.least)} to {_short(self.most)}"
        most = f" and <= {_short(self.most)}" if self.most < math.inf else ""
        return f"{kind} {'>' if self.open else '>='} {_short(self.least)}{most}"


EXACT = 2**53  # integers below it are exact in every JSON reader
Count = Annotated[int, Range(0, EXACT - 1)]
_HEX = frozenset("0123456789abcdef")
_UNIONS = (typing.Union, types.UnionType)
_NAMES, _LONGEST_NAME = 3, 60  # how many unknown names an error shows, and how much of each


class UnfitError(ConfigError):
    """The input does not fit the record. problem: the message without the record's name."""

    def __init__(self, kind: type, problem: str) -> None:
        super().__init__(f"{kind.__name__} with {problem}.")
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Digits:
    """A text of exactly `count` hexadecimal digits, in lower case."""

    count: int


@dataclass(frozen=True, slots=True)
class AtMost:
    """A tuple of at most `count` items."""

    count: int


@dataclass(frozen=True, slots=True)
class By:
    """A value that `decoder` accepts."""

    decoder: Decoder


@dataclass(frozen=True, slots=True)
class _Field:
    decoder: Decoder
    required: bool


def length(exactly: int) -> Range:
    """An exact length of bytes or text."""
    return Range(exactly, exactly)


def decode(kind: type[Record], found: Any, *, whole: bool = False) -> Record:
    """The record; UnfitError, which names the field, for anything else.

    whole: fields with a default must be present, too.
    """
    return kind(**fields_of(kind, found, whole=whole))


def fields_of(
    kind: type,
    found: Any,
    *,
    apart: Collection[str] = (),
    whole: bool = False,
    others: bool = False,
) -> dict[str, Any]:
    """The record's fields by name. apart: fields that are stored elsewhere. others: allow unknown keys.

    whole: as in `decode`.
    """
    if not isinstance(found, Mapping):
        raise UnfitError(kind, "no table of fields")
    known = {name: one for name, one in _fields(kind).items() if name not in apart}
    unknown = () if others else found.keys() - known.keys()
    missing = [name for name, one in known.items() if (one.required or whole) and name not in found]
    if unknown or missing:
        names = f"{some_names(unknown)} not known, {some_names(missing)} missing"
        raise UnfitError(
            kind, f"fields that do not belong together: {names}; do both sides run the same fl_dp?"
        )
    values = {}
    for name, field in known.items():
        if name in found:
            try:
                values[name] = field.decoder(found[name])
            except ValueError as error:
                words = error.problem if isinstance(error, UnfitError) else str(error).rstrip(".")
                raise UnfitError(kind, f"an impossible {name}: {words}") from None
    return values


def encoded(record: Any) -> dict[str, Any]:
    """The fields by name, as they are sent: tuples become lists."""
    values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    return {name: list(one) if isinstance(one, tuple) else one for name, one in values.items()}


def some_names(names: Collection[Any]) -> list[str]:
    """The first few, truncated for a log."""
    return [one_line(name, _LONGEST_NAME) for name in sorted(map(str, names))[:_NAMES]]


@cache
def _fields(kind: Any) -> dict[str, _Field]:
    hints = typing.get_type_hints(kind, include_extras=True)
    none = dataclasses.MISSING
    return {
        one.name: _Field(_decoder(hints[one.name]), one.default is none and one.default_factory is none)
        for one in dataclasses.fields(kind)
        if one.init
    }


def _decoder(hint: Any) -> Decoder:
    marks: tuple[Any, ...] = ()
    if typing.get_origin(hint) is Annotated:
        hint, *metadata = typing.get_args(hint)
        marks = tuple(one for one in metadata if isinstance(one, Range | Digits | AtMost | By))
    for mark in marks:
        if isinstance(mark, By):
            return mark.decoder
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in _UNIONS:
        (some,) = (part for part in parts if part is not types.NoneType)
        return _or_none(_decoder(Annotated[some, *marks] if marks else some))
    if origin is tuple:
        most = min((one.count for one in marks if isinstance(one, AtMost)), default=sys.maxsize)
        rest = [one for one in marks if not isinstance(one, AtMost)]
        return _each(_decoder(Annotated[parts[0], *rest] if rest else parts[0]), most)
    if origin is typing.Literal:
        return one_of(parts)
    if dataclasses.is_dataclass(hint):
        return lambda found: decode(typing.cast(type, hint), found)
    return _bounded(_exactly(hint), marks)


def _or_none(decoder: Decoder) -> Decoder:
    return lambda found: None if found is None else decoder(found)


def _each(decoder: Decoder, most: int) -> Decoder:
    def each(found: Any) -> tuple[Any, ...]:
        if not isinstance(found, list | tuple) or len(found) > most:
            raise ValueError("expected a list" + (f" of at most {most}" if most < sys.maxsize else ""))
        return tuple(map(decoder, found))

    return each


def _short(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


def one_of(texts: Collection[Any]) -> Decoder:
    """A decoder that accepts only these texts."""

    def one(found: Any) -> Any:
        if type(found) is not str or found not in texts:
            raise ValueError(f"expected {' or '.join(map(str, texts))}")
        return found

    return one


def _exactly(kind: Any) -> Decoder:
    def value(found: Any) -> Any:
        if type(found) is not kind or (kind is int and abs(found) >= EXACT):
            raise ValueError(f"expected {_WORDS[kind]}")
        return found

    return value


_WORDS = {str: "a text", bytes: "bytes", bool: "true or false", int: "an integer", float: "a number"}


def _bounded(decoder: Decoder, marks: Collection[Any]) -> Decoder:
    def value(found: Any) -> Any:
        fit = decoder(found)
        for mark in marks:
            if isinstance(mark, Digits):
                if len(fit) != mark.count or not _HEX.issuperset(fit):
                    raise ValueError(f"expected {mark.count} hexadecimal digits")
            elif isinstance(fit, str | bytes):
                if not mark.holds(len(fit)):
                    raise ValueError(f"expected {mark.in_words(whole=True)} letters or bytes")
            elif not mark.holds(fit):
                raise ValueError(f"expected {mark.in_words(whole=type(fit) is int)}")
        return fit

    return value if marks else decoder
