"""Reads untrusted input (messages, ledgers, statements, rosters, a run's files) into frozen dataclasses.

A dataclass's annotations say what an honest sender can have written. pydantic accepts nothing else, and no
error quotes the input.

| annotation | accepts |
|---|---|
| `str`, `bytes`, `bool` | that very type |
| `int` | an integer below 2^53, exact in every JSON reader; not true or false |
| `float` | a finite float; in `read` no integer |
| `X | None` | X, or None |
| `Literal["a", "b"]` | one of these texts |
| `tuple[X, ...]` | a list of them |
| a dataclass | a table of exactly its fields; or an instance |
| `Annotated[X, Range(1, 9)]` | a number in that range; a text, bytes or list of such a length |
| `Annotated[str, Digits(64)]` | exactly 64 hexadecimal digits, in lower case |
| `Annotated[X, Read(function)]` | what the function returns for it; the function raises ValueError |
"""

import dataclasses
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fl_dp.clean_text import one_line
from fl_dp.errors import ConfigError

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import SchemaValidator

Record = TypeVar("Record")

EXACT = 2**53  # integers below it are exact in every JSON reader
_NAMES, _LONGEST_NAME = 3, 60  # how many unknown names an error shows, and how much of each
_STRICT = {"strict": True, "extra_fields_behavior": "forbid", "hide_input_in_errors": True}
_NUMBER, _LENGTH = ("ge", "le"), ("min_length", "max_length")
_LIMITS = {"int": _NUMBER, "float": _NUMBER, "str": _LENGTH, "bytes": _LENGTH, "tuple": _LENGTH}


class UnfitError(ConfigError):
    """The input does not fit the record.

    place: of the field. words: the message without the record's name. problem: place and reason alone.
    """

    def __init__(self, kind: type, reason: str, place: str = "") -> None:
        self.problem = f"{place}: {reason}" if place else reason
        self.words = f"an impossible {self.problem}" if place else reason
        super().__init__(f"{kind.__name__} with {self.words}.")


@dataclass(frozen=True, slots=True)
class Range:
    """From `least` to `most`, both included, even if that is infinity."""

    least: float
    most: float

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        schema = handler(source)
        low, high = _LIMITS[schema["type"]]
        least, most = schema.get(low, self.least), schema.get(high, self.most)  # all ranges of a field hold
        return {**schema, low: max(self.least, least), high: min(self.most, most)}


@dataclass(frozen=True, slots=True)
class Digits:
    """A text of exactly `count` hexadecimal digits, in lower case."""

    count: int

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return handler(source) | {"pattern": rf"^[0-9a-f]{{{self.count}}}$"}


@dataclass(frozen=True)
class Read:
    """A value as the function returns it. The function raises ValueError."""

    read: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return {"type": "function-plain", "function": {"type": "no-info", "function": self.read}}


Count = Annotated[int, Range(0, EXACT - 1)]


def length(exactly: int) -> Range:
    """An exact length of bytes or text."""
    return Range(exactly, exactly)


def read(
    kind: type[Record],
    found: Any,
    *,
    apart: Mapping[str, Any] | None = None,
    whole: bool = False,
    others: bool = False,
) -> Record:
    """The record in a parsed table; UnfitError, which names the field, for anything else.

    apart: fields that are not in the table, by name. whole: also require fields that have a default.
    others: allow unknown keys.
    """
    if not isinstance(found, Mapping):
        raise UnfitError(kind, "no table of fields")
    apart = apart or {}
    fields = [one for one in dataclasses.fields(kind) if one.name not in apart]  # type: ignore[arg-type]
    names = {one.name for one in fields}
    unknown = set() if others else found.keys() - names
    # A field without a default has MISSING for both.
    missing = {one.name for one in fields if whole or one.default is one.default_factory} - found.keys()
    if unknown or missing:
        kinds = ((unknown, "not known"), (missing, "missing"))
        which = ", ".join(f"{some_names(ones)} {what}" for ones, what in kinds if ones)
        raise UnfitError(
            kind, f"fields that do not belong together: {which}; do both sides run the same fl_dp?"
        )
    values = {name: found[name] for name in names & found.keys()}
    with _validator(kind) as validator:
        record: Record = validator.validate_python(values | dict(apart))
        return record


def read_json(kind: type[Record], content: bytes | str) -> Record:
    """The record in a JSON text, whose whole numbers may stand for floats; UnfitError for anything else."""
    with _validator(kind) as validator:
        record: Record = validator.validate_json(content)
        return record


def to_json(kind: Any, record: Any) -> bytes:
    """What `read_json` reads, spelled in one way; an infinite number becomes null."""
    return _adapter(kind).dump_json(record)


def warm(*kinds: type) -> None:
    """Compile the readers of these (0.1 s), for processes that are forked later."""
    for kind in kinds:
        _compiled(kind)


def encoded(record: Any) -> dict[str, Any]:
    """The fields by name, as they are sent: tuples become lists."""
    values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    return {name: list(one) if isinstance(one, tuple) else one for name, one in values.items()}


def canonical(value: Any, *, spaced: bool = False) -> str:
    """The one spelling of a JSON value, for what is signed or hashed; ValueError if it has none.

    spaced: with a blank after each comma and colon, as ledgers and the terms of secure sums are hashed.
    """
    separators = (", ", ": ") if spaced else (",", ":")
    return json.dumps(value, sort_keys=True, separators=separators, allow_nan=False)


def some_names(names: Collection[Any]) -> list[str]:
    """The first few, truncated for a log."""
    return [one_line(name, _LONGEST_NAME) for name in sorted(map(str, names))[:_NAMES]]


@contextmanager
def _validator(kind: Any) -> "Iterator[SchemaValidator]":
    """pydantic's validator. Its errors become one UnfitError: the first wrong field, without its value."""
    from pydantic_core import ValidationError  # late: as below

    try:
        yield _compiled(kind)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    else:
        return
    place = one_line(".".join(map(str, first["loc"])))
    what = {"missing": "is missing", "unexpected_keyword_argument": "is none of its fields"}.get(
        first["type"], first["msg"].removeprefix("Value error, ").rstrip(".")
    )
    raise UnfitError(kind, what, place)


@cache
def _compiled(kind: Any) -> "SchemaValidator":
    from pydantic_core import SchemaValidator  # late: as below

    return SchemaValidator(_strict(_adapter(kind).core_schema))


@cache
def _adapter(kind: Any) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter  # late: it takes 0.1 s, and most commands read nothing

    return TypeAdapter(kind)


def _strict(node: Any) -> Any:
    """pydantic's schema of the annotations, with the rules above for each of its parts."""
    if isinstance(node, list):
        return [_strict(one) for one in node]
    if not isinstance(node, dict):
        return node
    node = {key: _strict(one) for key, one in node.items()}
    match node.get("type"):
        case "dataclass":
            return node | {"config": _STRICT, "strict": False}  # a table, and not only an instance
        case "tuple":
            return node | {"strict": False, "fail_fast": True}
        case "int":
            return {"ge": 1 - EXACT, "le": EXACT - 1} | node
        case "float":
            node |= {"allow_inf_nan": node.get("le") == math.inf}
            exactly = {"type": "chain", "steps": [{"type": "is-instance", "cls": float}, node]}
            return {"type": "json-or-python", "json_schema": node, "python_schema": exactly}
    return node
