"""What is declared is taken, and nothing else."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest

from fl_dp.errors import ConfigError
from fl_dp.schema import Count, Digits, Range, Read, UnfitError, canonical, encoded, length, read, read_json


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
    inner: Inner
    several: Annotated[tuple[Annotated[int, Range(0, 5)], ...], Range(0, 2)]
    inners: tuple[Inner, ...]
    maybe: Annotated[float, Range(0, 1)] | None = None
    even: Annotated[int, Read(_even)] = 2


FIELDS: dict[str, Any] = {
    "text": "t",
    "flag": True,
    "count": 3,
    "rate": 0.5,
    "code": "00af",
    "key": b"ab",
    "kind": "a",
    "inner": {"name": "n"},
    "several": [1, 2],
    "inners": [{"name": "m", "size": 2}],
}


def test_a_record_is_read_as_it_was_written() -> None:
    found = read(Record, FIELDS)
    assert found.inner == Inner("n")
    assert found.inners == (Inner("m", 2),)
    assert (found.maybe, found.even) == (None, 2)
    assert encoded(found)["several"] == [1, 2]
    assert read(Record, {**FIELDS, "maybe": 0.25, "even": 4}).maybe == 0.25


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
            read(Record, {**FIELDS, name: value})


@dataclass(frozen=True, slots=True)
class Narrowed:
    count: Annotated[Count, Range(1, 9)] = 1
    wide: Annotated[Annotated[int, Range(1, 9)], Range(0, 99)] = 1
    texts: Annotated[tuple[Annotated[str, Range(1, 9), Range(0, 3)], ...], Range(0, 3), Range(0, 9)] = ()
    digits: Annotated[str, Range(5, 9), Digits(4)] = ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", 10),
        ("wide", 10),
        ("texts", ["abcd"]),
        ("texts", [""]),
        ("texts", ["a"] * 4),
        ("digits", "00af"),
    ],
)
def test_all_ranges_of_a_field_hold(name: str, value: Any) -> None:
    with pytest.raises(UnfitError, match=name):
        read(Narrowed, {name: value})


def test_integers_that_some_readers_of_json_round_are_refused() -> None:
    assert read(Inner, {"name": "n", "size": -(2**53) + 1}).size == -(2**53) + 1
    for size in (2**53, -(2**53)):
        with pytest.raises(UnfitError, match=r"size: Input should be (less|greater) than"):
            read(Inner, {"name": "n", "size": size})


@pytest.mark.parametrize(
    ("found", "options", "words"),
    [
        ({"name": "n", "more": 1}, {}, r"\['more'\] not known; do"),
        ({"size": 1}, {}, r"together: \['name'\] missing"),
        ({"name": "n"}, {"whole": True}, r"\['size'\] missing"),
        ([], {}, "table"),
        ({"name": "n", "size": 1}, {"apart": {"size": 2}}, r"\['size'\] not known"),
    ],
)
def test_other_fields_are_refused(found: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UnfitError, match=words):
        read(Inner, found, **options)


def test_other_keys_may_stand_beside_where_it_says_so() -> None:
    assert read(Inner, {"name": "n", "more": 1}, others=True) == Inner("n")
    assert read(Inner, {"size": 3}, apart={"name": "n"}) == Inner("n", 3)
    with pytest.raises(UnfitError, match="name"):
        read(Inner, {"size": 3}, apart={"name": 7})


def test_an_error_is_short_and_names_the_way() -> None:
    with pytest.raises(
        UnfitError, match=r"an impossible inner\.size: Input should be a valid integer"
    ) as one:
        read(Record, {**FIELDS, "inner": {"name": "n", "size": 1.5}})
    assert one.value.problem.startswith("inner.size")
    for inner, words in (({}, "name: is missing"), ({"name": "n", "more": 1}, "more: is none of its fields")):
        with pytest.raises(UnfitError, match=rf"inner\.{words}"):
            read(Record, {**FIELDS, "inner": inner})
    with pytest.raises(UnfitError) as many:
        read(Inner, {"x" * 10**6 + str(number): 1 for number in range(9)})
    assert len(str(many.value)) < 500


@dataclass(frozen=True, slots=True)
class Infinite:
    finite: float = 0.0
    any_size: Annotated[float, Range(0, math.inf)] = 0.0


def test_a_number_is_infinite_only_where_its_range_is() -> None:
    assert read(Infinite, {"any_size": math.inf}).any_size == math.inf
    for found in (
        {"finite": math.inf},
        {"finite": math.nan},
        {"any_size": math.nan},
        {"any_size": -math.inf},
    ):
        with pytest.raises(UnfitError):
            read(Infinite, found)


def test_json_has_one_kind_of_number_and_its_integers_are_exact() -> None:
    assert read_json(Infinite, b'{"finite": 2}') == Infinite(2.0)
    for text in (
        '{"finite": NaN}',
        '{"finite": true}',
        '{"more": 1}',
        "[]",
        "{",
        '{"finite": ' + "[" * 10**5,
    ):
        with pytest.raises(UnfitError):
            read_json(Infinite, text)
    with pytest.raises(UnfitError):
        read_json(Inner, f'{{"name": "n", "size": {2**53}}}')


SECRET = "Smith, 42"


@pytest.mark.parametrize(
    "name", ["count", "rate", "code", "key", "kind", "inner", "several", "inners", "maybe"]
)
def test_no_error_quotes_what_was_found(name: str) -> None:
    for value in (SECRET, [SECRET], {"name": [SECRET]}, [{"name": [SECRET]}]):
        with pytest.raises(UnfitError) as refused:
            read(Record, {**FIELDS, name: value})
        assert "Smith" not in str(refused.value)
        assert refused.value.__cause__ is None


def test_of_very_many_wrong_items_the_first_is_named() -> None:
    with pytest.raises(UnfitError, match=r"several\.0"):
        read(Record, {**FIELDS, "several": ["a"] * 10**6})


def test_what_is_signed_has_one_spelling() -> None:
    assert canonical({"b": [1, 0.5], "a": "é"}) == '{"a":"\\u00e9","b":[1,0.5]}'
    assert canonical({"b": [1, 2], "a": None}, spaced=True) == '{"a": null, "b": [1, 2]}'
    with pytest.raises(ValueError, match="JSON"):
        canonical(math.nan)
