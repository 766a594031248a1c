"""What is declared is taken, and nothing else."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest

from fl_dp.decoding import (
    AtMost,
    By,
    Count,
    Digits,
    Range,
    UnfitError,
    decode,
    encoded,
    fields_of,
    length,
    one_of,
)
from fl_dp.errors import ConfigError


def _even(found: Any) -> int:
    if type(found) is not int or found % 2:
        raise ValueError("expected an even number")
    return found


@dataclass(frozen=True, slots=True)
class Inner:
    name: str
    size: int = 1


@dataclass(frozen=True, slots=True)
class Record:
    text: str
    flag: bool
    count: Annotated[int, Range(1, 9)]
    rate: Annotated[float, Range(0, 1)]
    code: Annotated[str, Digits(4)]
    key: Annotated[bytes, length(2)]
    kind: Literal["a", "b"]
    word: Annotated[str, By(one_of(("x", "y")))]
    inner: Inner
    several: Annotated[tuple[int, ...], AtMost(2), Range(0, 5)]
    inners: tuple[Inner, ...]
    maybe: Annotated[float, Range(0, 1)] | None = None
    even: Annotated[int, By(_even)] = 2


FIELDS: dict[str, Any] = {
    "text": "t", "flag": True, "count": 3, "rate": 0.5, "code": "00af", "key": b"ab", "kind": "a",
    "word": "y", "inner": {"name": "n"}, "several": [1, 2], "inners": [{"name": "m", "size": 2}],
}  # fmt: skip


def test_a_record_is_read_as_it_was_written() -> None:
    found = decode(Record, FIELDS)
    assert found.inner == Inner("n")
    assert found.inners == (Inner("m", 2),)
    assert (found.maybe, found.even) == (None, 2)
    assert encoded(found)["several"] == [1, 2]
    assert decode(Record, {**FIELDS, "maybe": 0.25, "even": 4}).maybe == 0.25


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("text", (1, None, b"t")),
        ("flag", (1, "true", None)),
        ("count", (0, 10, True, 3.0, "3", 10**400)),
        ("rate", (1, 1.5, -0.1, math.nan, math.inf, "0.5")),
        ("code", ("00a", "00AF", "00ag", 12)),
        ("key", (b"a", b"abc", "ab")),
        ("kind", ("c", None, 1, ["a"])),
        ("word", ("z", 7)),
        ("inner", ([], {}, {"name": 1}, {"name": "n", "more": 1}, {"name": "n", "size": True})),
        ("several", ([1, 2, 3], [6], [True], "12", 1)),
        ("inners", ({"name": "m"}, [[]], [{"size": 2}])),
        ("maybe", (2.0, "none", math.nan)),
        ("even", (3, None)),
    ],
)
def test_what_is_not_declared_is_refused_by_name(name: str, values: tuple[Any, ...]) -> None:
    for value in values:
        with pytest.raises(ConfigError, match=f"Record with an impossible {name}"):
            decode(Record, {**FIELDS, name: value})


@dataclass(frozen=True, slots=True)
class Narrowed:
    count: Annotated[Count, Range(1, 9)] = 1
    wide: Annotated[Annotated[int, Range(1, 9)], Range(0, 99)] = 1
    texts: Annotated[tuple[Annotated[str, Range(1, 9)], ...], Range(0, 3)] = ()
    digits: Annotated[str, Range(5, 9), Digits(4)] = ""


@pytest.mark.parametrize(
    ("name", "value"),
    [("count", 10), ("wide", 10), ("texts", ["abcd"]), ("texts", [""]), ("digits", "00af")],
)
def test_all_ranges_of_a_field_hold(name: str, value: Any) -> None:
    with pytest.raises(UnfitError, match=name):
        decode(Narrowed, {name: value})


def test_integers_that_some_readers_of_json_round_are_refused() -> None:
    assert decode(Inner, {"name": "n", "size": -(2**53) + 1}).size == -(2**53) + 1
    for size in (2**53, -(2**53)):
        with pytest.raises(UnfitError, match="expected an integer"):
            decode(Inner, {"name": "n", "size": size})


@pytest.mark.parametrize(
    ("found", "options", "words"),
    [
        ({"name": "n", "more": 1}, {}, r"\['more'\] not known"),
        ({"size": 1}, {}, r"\['name'\] missing"),
        ({"name": "n"}, {"whole": True}, r"\['size'\] missing"),
        ([], {}, "no table"),
        ({"name": "n", "size": 1}, {"apart": ["size"]}, r"\['size'\] not known"),
    ],
)
def test_other_fields_are_refused(found: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UnfitError, match=words):
        fields_of(Inner, found, **options)


def test_other_keys_may_stand_beside_where_it_says_so() -> None:
    assert fields_of(Inner, {"name": "n", "more": 1}, others=True) == {"name": "n"}
    assert fields_of(Inner, {"size": 3}, apart=["name"]) == {"size": 3}


def test_an_error_is_short_and_names_the_way() -> None:
    with pytest.raises(UnfitError, match="inner: an impossible size: expected an integer") as one:
        decode(Record, {**FIELDS, "inner": {"name": "n", "size": 1.5}})
    assert one.value.problem.startswith("an impossible inner")
    with pytest.raises(UnfitError) as many:
        decode(Inner, {"x" * 10**6 + str(number): 1 for number in range(9)})
    assert len(str(many.value)) < 500
