"""What a setting means, beside the setting itself: errors, `fl-dp keys` and written files read it there."""

import dataclasses
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar

from fl_dp.choices import Choices

Value = TypeVar("Value")
_ABOUT = "fl_dp"  # in the metadata of a field


@dataclass(frozen=True, slots=True)
class About:
    """group: the heading it stands under. meaning: a phrase, without a full stop.

    choices: the values there are; of a `Choices` the names of its files. checked: whether a config is held to
    them; else whoever uses the value is. gone: values that were choices once, each with the end of its error.
    own: why only files of ours will do; empty: others will do too.
    also: what a value may be beside the choices. page: of docs/, that says more. common: most runs set it.
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
    """What each field of a config, a dataclass, means; TypeError for one that nobody has explained."""
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
