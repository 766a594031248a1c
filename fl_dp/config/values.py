"""Checks each value of a config alone: its type, range and choices, and that files can hold its text.

A setting's annotation declares type and range (`setting.Accepted`); an integer will do for any number.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from fl_dp.choices import Choices, nearest, one_of
from fl_dp.config.also_called import SEVERAL_RUNS, instead_of, option_called, setting_called, value_called
from fl_dp.config.setting import About, Accepted, abouts_of, accepted_by
from fl_dp.errors import ConfigError

LONGEST = 4096  # bytes of a path on most systems
_SHOWN = 40  # characters of a text quoted in an error
_SEVERAL = re.compile(r"[\d.]+(\s*,\s*[\d.]+)+")


@dataclass(frozen=True, slots=True)
class Mistake:
    """key: of the setting. words: a sentence that begins with the key."""

    key: str
    words: str


class SettingsError(ConfigError):
    """One or several errors, one per line."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__(_in_lines([one.words for one in self.mistakes]))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.mistakes,)

    def placed(self, told: Callable[[Mistake], str]) -> "SettingsError":
        """The same errors in the words that `told` gives, which add the place."""
        return SettingsError(Mistake(one.key, told(one)) for one in self.mistakes)


def _in_lines(sentences: Sequence[str]) -> str:
    if len(sentences) == 1:
        return sentences[0]
    return "\n  ".join((f"{len(sentences)} mistakes:", *sentences))


def key_of(field: str) -> str:
    return field.replace("_", "-")


def values_in(kind: type, flat: Mapping[str, Any]) -> tuple[dict[str, Any], list[Mistake]]:
    """The right values of a flat mapping, by field; and what is wrong with others, unknown or missing."""
    fields, abouts = accepted_by(kind), abouts_of(kind)
    names = {key_of(name): name for name in fields}
    values: dict[str, Any] = {}
    mistakes: list[Mistake] = []
    for key, value in flat.items():
        if key not in names:
            mistakes.append(Mistake(key, f"{key}: {_unknown(kind, key, value)}"))
            continue
        name = names[key]
        try:
            values[name] = _value(key, value, fields[name], abouts[name])
        except ValueError as error:
            mistakes.append(Mistake(key, str(error)))
    missing = sorted(key for key, name in names.items() if fields[name].required and key not in flat)
    return values, mistakes + [Mistake(key, f"{key}: is missing.") for key in missing]


def _value(key: str, value: Any, accepted: Accepted, about: About) -> Any:
    """The value in its type; ValueError, whose words begin with the key."""
    value = _in_its_type(key, value, accepted, about)
    if isinstance(value, str):
        problem = _text_problem(value) or (about.checked and _choice_problem(value, about))
        open_ended = not (about.checked and about.choices)  # the code that uses the value knows all
        meant = value_called(key, value) if problem or open_ended else ""
        if meant and value not in _names(about):  # another package's choice may have the name
            problem = f'expected another value; write {key} = "{meant}".'
        if problem:
            raise ValueError(problem if problem.startswith(key) else f"{key} = {value[:_SHOWN]!r}: {problem}")
    return value


def _in_its_type(key: str, value: Any, accepted: Accepted, about: About) -> Any:
    if accepted.takes(value):
        return value
    if type(value) is int:
        with suppress(OverflowError):
            if accepted.takes(number := float(value)):
                return number
    long = isinstance(value, int) and abs(value) >= 10**30
    shown = "a number of more than 30 digits" if long else repr(value)
    near = ""
    if not isinstance(value, str | int | float | None):  # perhaps records: none is shown
        shown = f"a {type(value).__name__}"
    if isinstance(value, str):
        shown, near = repr(value[:_SHOWN]), nearest(value, accepted.texts)
    meant = f"; did you mean {near}?" if near else "."
    several = isinstance(value, list | tuple) or (isinstance(value, str) and _SEVERAL.fullmatch(value))
    if several and accepted.kind is not str:
        meant = f", one for a run; for several runs use {SEVERAL_RUNS}."
    if accepted.kind is str and not isinstance(value, str | int | float):  # perhaps another project's object
        meant = f", {about.meaning}{about.page and f' (docs/{about.page})'}."
    raise ValueError(f"{key} = {shown}: expected {', or '.join(accepted.words)}{meant}")


def _text_problem(text: str) -> str:
    """The problem with a text that no file or path can hold; else empty. Other files quote it."""
    if len(text) > LONGEST:
        return f"expected {LONGEST} characters at most."
    if "\0" in text:
        return "expected a string without a NUL character."
    try:
        text.encode()
    except UnicodeEncodeError:
        return "expected a string in UTF-8."
    for path in (text, text.partition(":")[2]):
        if path.startswith("~"):
            try:
                Path(path).expanduser()
            except RuntimeError:
                return f"{path.partition('/')[0]} is not a user of this machine."
    return ""


def _names(about: About) -> Sequence[str]:
    return about.choices.names() if isinstance(about.choices, Choices) else about.choices


def _choice_problem(value: str, about: About) -> str:
    if not isinstance(about.choices, Choices):
        fits = not about.choices or value in about.choices
        return "" if fits else one_of(value, [one for one in about.choices if one])
    try:
        if about.own:
            about.choices.check_built_in(value, about.own)
        else:
            about.choices.check(value)
    except ConfigError as error:
        return str(error)
    return ""


def _unknown(kind: type, key: str, value: Any) -> str:
    """The config that has this key, if another does; else the most similar key, or where all are listed.

    Configs name one another as "module:class", since they cannot import each other.
    """
    for other, words in getattr(kind, "ELSEWHERE", ()):
        if key in map(key_of, abouts_of(resolve_name(other))):
            return str(words)
    keys = [key_of(name) for name in abouts_of(kind)]
    meant, template = setting_called(key)
    if meant in keys and template != "{}":
        return f'unknown key; write {meant} = "{template.format(value)}".'
    if words := instead_of(key):
        return f"unknown key; {words}."
    if (option := option_called(key)).startswith("--"):
        return f"unknown key; it is the option {option} of fl-dp run, and no setting."
    near = meant if meant in keys else nearest(key, keys)
    command = getattr(kind, "LISTED_BY", "fl-dp keys")
    return f"unknown key; {f'did you mean {near}?' if near else f'{command} lists all keys.'}"
