"""Checks each value of a config alone: its type, range and choices, and that files can hold its text."""

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from pkgutil import resolve_name
from typing import Any, Literal

from fl_dp.choices import Choices, nearest, one_of
from fl_dp.config.mistakes import Mistake, SettingsError
from fl_dp.config.ranges import range_problem, ranges_of
from fl_dp.config.setting import About, abouts_of, needed
from fl_dp.config.texts import text_problem
from fl_dp.decoding import Range
from fl_dp.errors import ConfigError

_UNIONS = (typing.Union, types.UnionType)
_WORDS = {str: "a text", bool: "true or false", int: "an integer", float: "a number"}
_SHOWN = 40  # characters of a text quoted in an error


def key_of(field: str) -> str:
    return field.replace("_", "-")


def typed_values(kind: type, flat: Mapping[str, Any]) -> tuple[dict[str, Any], list[Mistake]]:
    """The values of a flat mapping that have the right type, by field; and the errors of the others."""
    hints = {field.name: _hints(kind)[field.name] for field in dataclasses.fields(kind)}
    known = {key_of(name): name for name in hints}
    values: dict[str, Any] = {}
    mistakes: list[Mistake] = []
    for key, value in flat.items():
        name = known.get(key)
        if name is None:
            mistakes.append(Mistake(key, f"{key}: {_unknown(kind, key)}"))
            continue
        try:
            values[name] = _typed(kind, name, value, hints[name])
        except SettingsError as error:
            mistakes += error.mistakes
    missing = sorted(needed(kind) - {known.get(key) for key in flat})
    return values, mistakes + [Mistake(key_of(name), f"{key_of(name)}: is missing.") for name in missing]


def value_mistakes(kind: type, values: Mapping[str, Any]) -> list[Mistake]:
    """The errors in the values, by field, of a config of that kind."""
    abouts, ranges = abouts_of(kind), ranges_of(kind)
    return [
        Mistake(key_of(name), words)
        for name, value in values.items()
        if name in abouts
        for words in _problems(key_of(name), value, abouts[name], ranges.get(name))
    ]


def expected_in_words(kind: type, field: str) -> str:
    """What the setting accepts: "an integer from 1 to 100, or auto"."""
    bounds = ranges_of(kind).get(field)
    words = [_in_words(option, bounds) for option in _options(_hints(kind)[field])]
    return ", or ".join(words)


def _problems(key: str, value: Any, about: About, bounds: Range | None) -> Iterator[str]:
    if bounds is not None and (problem := range_problem(bounds, value)):
        yield f"{key} = {problem}."
    if not isinstance(value, str):
        return
    if problem := text_problem(value):
        yield f"{key} = {value[:_SHOWN]!r}: {problem}."
    elif about.checked and about.choices and (problem := _choice_problem(value, about)):
        yield problem if problem.startswith(key) else f"{key} = {value[:_SHOWN]!r}: {problem}"


def _choice_problem(value: str, about: About) -> str:
    for gone, words in about.gone:
        if value == gone:
            return words
    if not isinstance(about.choices, Choices):
        return "" if value in about.choices else one_of(value, [one for one in about.choices if one])
    try:
        if about.own:
            about.choices.check_built_in(value, about.own)
        else:
            about.choices.check(value)
    except ConfigError as error:
        return str(error)
    return ""


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _options(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) in _UNIONS else (hint,)


def _in_words(option: Any, bounds: Range | None) -> str:
    if typing.get_origin(option) is Literal:
        return str(typing.get_args(option)[0])
    return bounds.in_words(whole=option is int) if bounds else _WORDS[option]


def _typed(kind: type, name: str, value: Any, hint: Any) -> Any:
    """`value` as the type that `hint` declares; an int is accepted for a float."""
    for option in _options(hint):
        if typing.get_origin(option) is Literal:
            if value in typing.get_args(option):
                return value
        elif option is float and type(value) in (int, float):
            return _float(key_of(name), value)
        elif type(value) is option:  # not isinstance: a bool must not pass for an int
            return value
    words = [one for option in _options(hint) for one in typing.get_args(option)]
    near = nearest(value, words) if isinstance(value, str) else ""
    meant = f"; did you mean {near}?" if near else "."
    raise _mistake(key_of(name), f"= {value!r}: expected {expected_in_words(kind, name)}{meant}")


def _float(key: str, value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        raise _mistake(key, ": expected a number, not one of more than 300 digits.") from None


def _mistake(key: str, words: str) -> SettingsError:
    return SettingsError([Mistake(key, f"{key}{'' if words.startswith(':') else ' '}{words}")])


def _unknown(kind: type, key: str) -> str:
    """The config that has this key, if another does; else the most similar key, or where all are listed.

    Configs name one another as "module:class", since they cannot import each other.
    """
    for other, words in getattr(kind, "ELSEWHERE", ()):
        if key in map(key_of, abouts_of(resolve_name(other))):
            return str(words)
    near = nearest(key, [key_of(name) for name in abouts_of(kind)])
    command = getattr(kind, "LISTED_BY", "fl-dp keys")
    return f"unknown key; {f'did you mean {near}?' if near else f'{command} lists those that there are.'}"
