"""Converts flat settings with kebab-case keys to validated frozen dataclasses, and back."""

import dataclasses
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from fl_dp.config.files import read_toml
from fl_dp.config.values import Mistake, SettingsError, key_of, values_in
from fl_dp.errors import ConfigError

AUTO = "auto"
Auto = Literal["auto"]
Scalar = str | int | float | bool
OWN_ACCOUNTANT = "an accountant of fl_dp itself, as it holds a budget"

_HEAD = re.compile(r"([a-z][a-z-]*)(?= = |: )")  # the key at the start of an error about a setting
_KEY = re.compile(r"""\s*\[*\s*["']?([\w-]+)""")  # at the start of a line
_TABLE = re.compile(r"^[ \t]*(\[[^]\n]*\]+)", re.MULTILINE)


class FlatConfig:
    """Conversion between a frozen dataclass and a flat mapping with kebab-case keys."""

    def __post_init__(self) -> None:
        if mistakes := values_in(type(self), self.to_flat())[1]:
            raise SettingsError(mistakes)

    @classmethod
    def from_flat(cls, flat: Mapping[str, Any]) -> Self:
        """Build from a flat mapping. SettingsError names every unknown key, missing key and wrong value.

        Errors in combinations of values, such as more clients a round than there are, are reported one at a
        time.
        """
        values, mistakes = values_in(cls, flat)
        if mistakes:
            raise SettingsError(mistakes)
        try:
            return cls(**values)
        except SettingsError:
            raise
        except ConfigError as error:
            found = _HEAD.match(str(error))
            raise SettingsError([Mistake(found[1] if found else "", str(error))]) from None

    @classmethod
    def from_toml(cls, path: Path) -> Self:
        """Read a flat TOML file; every error names the file, and the line if it concerns one."""
        found = read_toml(path, what="config file", named=True)
        try:
            return cls.from_flat(found)
        except SettingsError as error:
            places = places_in(path)
            tables = [one for one in error.mistakes if _is_table(found.get(one.key))]
            if tables and (table := _TABLE.search(path.read_text(encoding="utf-8"))):
                line = table.string.count("\n", 0, table.start(1)) + 1
                words = (
                    f"{path}, line {line}: {table[1]}: a config has no tables; leave out this line, and "
                    "write all keys as KEY = VALUE lines."
                )
                raise SettingsError([Mistake(tables[0].key, words)]) from None
            raise error.placed(lambda one: f"{places.get(one.key, path)}: {one.words}") from None

    def _require(self, key: str, condition: bool, expected: str) -> None:
        """Raise SettingsError, with the setting's value and what is expected, unless the condition holds."""
        require(condition, key, getattr(self, key.replace("-", "_")), expected)

    def to_flat(self) -> dict[str, Scalar]:
        """The flat mapping that `from_flat` turns back into an equal object."""
        return {key_of(f.name): getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]


def _is_table(value: Any) -> bool:
    """Whether TOML writes it below a line in brackets: as a table, or as several of one name."""
    return isinstance(value, dict) or (
        isinstance(value, list) and all(isinstance(one, dict) for one in value)
    )


def places_in(path: Path) -> dict[str, str]:
    """The place of each key in a flat TOML file: "run.toml, line 3"."""
    lines = path.read_text(encoding="utf-8").splitlines()
    found = ((number, _KEY.match(line)) for number, line in enumerate(lines, 1))
    return {match[1]: f"{path}, line {number}" for number, match in reversed(list(found)) if match}


def require(condition: bool, key: str, value: object, expected: str) -> None:
    if not condition:
        raise SettingsError([Mistake(key, f"{key} = {value!r}: expected {expected}.")])


def number_in(key: str, value: str, word: str, least: float, most: float, wanted: str) -> float:
    """`word`, a part of the setting's value, as a number from `least` to `most`; else SettingsError."""
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    require(least <= number <= most, key, value, wanted)
    return number
