"""What a setting means, stated beside the setting itself: errors, `fl-dp keys` and written files read it."""

import dataclasses
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar

from fl_dp.choices import Choices

Value = TypeVar("Value")
_ABOUT = "fl_dp"  # key in the metadata of a field


@dataclass(frozen=True, slots=True)
class About:
    """group: the heading that it is listed under. meaning: a phrase, without a full stop.

    choices: the possible values; for a `Choices`, the names of its files. checked: whether a config is
    checked against them; if not, the code that uses the value checks it. gone: former choices, each with the
    end of its error. own: why only our own files will do; empty: others will do too.
    also: another accepted form besides the choices. page: of docs/, with more. common: most runs set it.
    """

    group: str
    meaning: str
    choices: Choices | tuple[str, ...] = ()
    checked: bool = True
    gone: tuple[tuple[str, str], ...] = ()
    own: str = ""
    also: str = ""
    page: str = ""
    common: bool = False


def setting(default: Value, group: str, meaning: str, **more: Any) -> Value:
    """A field of a config, with its default. more: see `About`."""
    return dataclasses.field(default=default, metadata=about(group, meaning, **more))


def about(group: str, meaning: str, **more: Any) -> Mapping[str, About]:
    """The metadata of a field that has no default."""
    return MappingProxyType({_ABOUT: About(group, meaning, **more)})


@cache
def abouts_of(kind: type) -> dict[str, About]:
    """What each field of a config, a dataclass, means; TypeError for a field without explanation."""
    found: dict[str, About] = {}
    for field in dataclasses.fields(kind):
        if _ABOUT not in field.metadata:
            raise TypeError(f"{kind.__name__}.{field.name}: a setting needs its meaning, see fl_dp/config.")
        found[field.name] = field.metadata[_ABOUT]
    return found


@cache
def needed(kind: type) -> frozenset[str]:
    """The fields of a config that have no default."""
    return frozenset(one.name for one in dataclasses.fields(kind) if one.default is MISSING)
