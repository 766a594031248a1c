"""All keys of a config, for tables and written files, read from the settings themselves."""

import dataclasses
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from fl_dp.choices import Choices
from fl_dp.config.setting import About, abouts_of
from fl_dp.config.values import key_of
from fl_dp.decoding import Field, declared

_FIRST = "The usual ones"


@dataclass(frozen=True, slots=True)
class Key:
    """One key. default: as TOML; empty for a key that has none. expected: what its value may be."""

    name: str
    default: str
    expected: str
    about: About


def keys_of(kind: type) -> list[Key]:
    """All keys of a config, a dataclass, group by group in the order of the groups' first keys.

    Choices list only our own names: what other packages add differs between machines.
    """
    abouts, accepted = abouts_of(kind), declared(kind)
    keys = [_key(one, accepted[one.name], abouts[one.name]) for one in dataclasses.fields(kind)]
    groups = list(dict.fromkeys(key.about.group for key in keys))
    return sorted(keys, key=lambda key: groups.index(key.about.group))


def by_group(keys: list[Key], *, common_first: bool = False) -> Iterator[tuple[str, list[Key]]]:
    """The keys under their headings. common_first: those that most runs set get a heading of their own."""
    rest = keys
    if common_first:
        yield _FIRST, [key for key in keys if key.about.common]
        rest = [key for key in keys if not key.about.common]
    for group, members in groupby(rest, key=lambda key: key.about.group):
        yield group, list(members)


def _key(one: "dataclasses.Field[Any]", accepted: Field, about: About) -> Key:
    default = "" if accepted.required else toml_value(one.default)
    names = about.choices.built_in() if isinstance(about.choices, Choices) else about.choices
    expected = ", ".join(filter(None, names)) or ", or ".join(accepted.words)
    return Key(key_of(one.name), default, expected, about)


def toml_value(value: Any) -> str:
    """A default as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value)  # same form as TOML's basic strings
    return "inf" if value == math.inf else str(value)
