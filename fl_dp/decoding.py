"""Decodes untrusted input (messages, statements, claims) into frozen dataclasses.

A dataclass declares by its annotations what an honest writer can have written; nothing else is accepted.

| annotation | accepts |
|---|---|
| `str`, `bytes`, `bool` | that very type |
| `int` | an integer below 2^53, exact in every JSON reader; not true or false |
| `float` | a float, never an integer |
| `X | None` | X, or None |
| `X | Literal["auto"]` | X, or this text |
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
class Field:
    """What a field accepts. words: in an error, as ("an integer from 1 to 9", "auto").

    kind, bounds: of a value that is not composed, besides None and texts.
    """

    decoder: Decoder
    words: tuple[str, ...] = ()
    kind: Any = None
    bounds: Range | None = None
    required: bool = True


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
    known = {name: one for name, one in declared(kind).items() if name not in apart}
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
def declared(kind: Any) -> dict[str, Field]:
    """What the record's annotations declare, by field."""
    hints = typing.get_type_hints(kind, include_extras=True)
    none = dataclasses.MISSING
    return {
        one.name: dataclasses.replace(
            _field(hints[one.name]), required=one.default is none and one.default_factory is none
        )
        for one in dataclasses.fields(kind)
        if one.init
    }


def _field(hint: Any) -> Field:
    marks: tuple[Any, ...] = ()
    if typing.get_origin(hint) is Annotated:
        hint, *metadata = typing.get_args(hint)
        marks = tuple(one for one in metadata if isinstance(one, Range | Digits | AtMost | By))
    for mark in marks:
        if isinstance(mark, By):
            return Field(mark.decoder)
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in _UNIONS:
        return _either(parts, marks)
    if origin is tuple:
        most = min((one.count for one in marks if isinstance(one, AtMost)), default=sys.maxsize)
        rest = [one for one in marks if not isinstance(one, AtMost)]
        return _each(_field(Annotated[parts[0], *rest] if rest else parts[0]).decoder, most)
    if origin is typing.Literal:
        return Field(one_of(parts), parts)
    if dataclasses.is_dataclass(hint):
        return Field(lambda found: decode(typing.cast(type, hint), found))
    return _plain(hint, marks)


def _either(parts: Collection[Any], marks: Collection[Any]) -> Field:
    """One type, besides None and texts."""
    texts = [text for part in parts for text in typing.get_args(part) if type(text) is str]
    (some,) = (
        part for part in parts if part is not types.NoneType and typing.get_origin(part) is not typing.Literal
    )
    field, optional = _field(Annotated[some, *marks] if marks else some), types.NoneType in parts

    def value(found: Any) -> Any:
        beside = optional if found is None else type(found) is str and found in texts
        return found if beside else field.decoder(found)

    return dataclasses.replace(field, decoder=value, words=(*field.words, *texts))


def _each(decoder: Decoder, most: int) -> Field:
    words = "a list" + (f" of at most {most}" if most < sys.maxsize else "")

    def value(found: Any) -> tuple[Any, ...]:
        if not isinstance(found, list | tuple) or len(found) > most:
            raise ValueError(f"expected {words}")
        return tuple(map(decoder, found))

    return Field(value, (words,))


def _short(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


def one_of(texts: Collection[Any]) -> Decoder:
    """A decoder that accepts only these texts."""

    def one(found: Any) -> Any:
        if type(found) is not str or found not in texts:
            raise ValueError(f"expected {' or '.join(map(str, texts))}")
        return found

    return one


_WORDS = {str: "a text", bytes: "bytes", bool: "true or false", int: "an integer", float: "a number"}
_ANY = {int: [Range(1 - EXACT, EXACT - 1)]}  # of an integer without a range


def _plain(kind: Any, marks: Collection[Any]) -> Field:
    digits = next((one.count for one in marks if isinstance(one, Digits)), None)
    limits = [one for one in marks if isinstance(one, Range)]  # all hold: an alias has its own, too
    limits += [] if digits is None else [length(digits)]
    bounds = limits[-1] if limits else None
    words = _WORDS.get(kind, str(kind))  # of a field that is stored elsewhere, any
    if digits is not None:
        words = f"{digits} hexadecimal digits"
    elif bounds is not None and kind in (str, bytes):
        words += f" of a length from {_short(bounds.least)} to {_short(bounds.most)}"
    elif bounds is not None:
        words = bounds.in_words(whole=kind is int)
    limits = limits or _ANY.get(kind, [])

    def value(found: Any) -> Any:
        fits = type(found) is kind and (digits is None or _HEX.issuperset(found))
        size = len(found) if fits and kind in (str, bytes) else found
        if not fits or not all(one.holds(size) for one in limits):
            raise ValueError(f"expected {words}")
        return found

    return Field(value, (words,), kind, bounds)
