"""How a setting is declared: its range, and what it means. Errors, `fl-dp keys` and written files read it.

Every number of a config has a range. So no library gets a number that it cannot hold, and no number asks for
more memory or time than any machine has.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

from fl_dp.choices import Choices
from fl_dp.records import MOST_RECORDS


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


def _short(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


MOST_SEED = 2**63 - 1  # the largest that messages and libraries take
MOST_CLIENTS = 10**6
Clients = Annotated[int, Range(1, MOST_CLIENTS)]
Rounds = Annotated[int, Range(1, 10**6)]
Examples = Annotated[int, Range(1, 2**30)]  # in one step
Mebibytes = Annotated[int, Range(1, 2**24)]  # 16 TiB
Side = Annotated[int, Range(0, 2**16)]  # pixels, tokens or ranks
Seed = Annotated[int, Range(0, MOST_SEED)]
Records = Annotated[int, Range(1, MOST_RECORDS)]
Seconds = Annotated[float, Range(0, 1e8, open=True)]  # three years: no system call waits longer
Positive = Annotated[float, Range(0, 1e12, open=True)]

Value = TypeVar("Value")
_ABOUT = "fl_dp"  # key in the metadata of a field


@dataclass(frozen=True, slots=True)
class About:
    """group: the heading that it is listed under. meaning: a phrase, without a full stop.

    choices: the possible values; for a `Choices`, the names of its files. checked: the config compares the
    value with them; if not, the code that uses it does. own: what is expected if only built-in choices are
    allowed; empty: other packages' are too. also: another accepted form besides the choices. page: of docs/,
    with more. common: most runs set it. may_change: a resumed run may change it, as it says where and how
    long, not what is computed. path: it may name a file or folder of this machine.
    """

    group: str
    meaning: str
    choices: Choices | tuple[str, ...] = ()
    checked: bool = True
    own: str = ""
    also: str = ""
    page: str = ""
    common: bool = False
    may_change: bool = False
    path: bool = False


def setting(default: Value, group: str, meaning: str, **more: Any) -> Value:
    """A field of a config, with its default. more: see `About`."""
    return dataclasses.field(default=default, metadata=about(group, meaning, **more))


def about(group: str, meaning: str, **more: Any) -> Mapping[str, About]:
    """The metadata of a field that has no default."""
    return MappingProxyType({_ABOUT: About(group, meaning, **more)})


@dataclass(frozen=True, slots=True)
class Accepted:
    """What a setting's annotation accepts: a value of `kind`, within `bounds` if any; or one of `texts`."""

    kind: type
    bounds: Range | None
    texts: tuple[str, ...]
    required: bool

    @property
    def words(self) -> tuple[str, ...]:
        """For an error, such as ("an integer from 1 to 9", "auto")."""
        plain = {str: "a string", bool: "true or false"}
        first = self.bounds.in_words(self.kind is int) if self.bounds else plain[self.kind]
        return first, *self.texts

    def takes(self, value: object) -> bool:
        """Whether it is exactly of that type and in range: an integer is no float, and true no integer."""
        if type(value) is str and value in self.texts:
            return True
        return type(value) is self.kind and (
            self.bounds is None or self.bounds.holds(typing.cast(float, value))
        )


@cache
def accepted_by(kind: type) -> dict[str, Accepted]:
    """What each field of a config, a dataclass, accepts; TypeError for a number without a range."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {one.name: _accepted(kind, one, hints[one.name]) for one in dataclasses.fields(kind)}


def _accepted(config: type, field: "dataclasses.Field[Any]", hint: Any) -> Accepted:
    parts = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    texts = tuple(
        text for part in parts if typing.get_origin(part) is Literal for text in typing.get_args(part)
    )
    (value,) = (part for part in parts if typing.get_origin(part) is not Literal)
    kind, *marks = typing.get_args(value) if typing.get_origin(value) is Annotated else (value,)
    bounds = next((mark for mark in marks if isinstance(mark, Range)), None)
    if kind in (int, float) and bounds is None:
        raise TypeError(f"{config.__name__}.{field.name}: a number needs a range.")
    return Accepted(kind, bounds, texts, field.default is dataclasses.MISSING)


@cache
def abouts_of(kind: type) -> dict[str, About]:
    """What each field of a config, a dataclass, means; TypeError for one without meaning."""
    found: dict[str, About] = {}
    for field in dataclasses.fields(kind):
        if _ABOUT not in field.metadata:
            raise TypeError(f"{kind.__name__}.{field.name}: a setting needs its meaning, see fl_dp/config.")
        found[field.name] = field.metadata[_ABOUT]
    return found
