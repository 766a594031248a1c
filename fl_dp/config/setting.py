"""How a setting is declared: its range, and what it means. Errors, `fl-dp keys` and written files read it.

Every number of a config has a range. So none reaches a library that cannot hold it, and none asks for more
memory or time than any machine has.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

from fl_dp.choices import Choices
from fl_dp.decoding import Range, declared
from fl_dp.records import MOST_RECORDS

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

    choices: the possible values; for a `Choices`, the names of its files. checked: whether a config is
    checked against them; if not, the code that uses the value checks it. own: why only our own files will
    do; empty: others will do too. also: another accepted form besides the choices. page: of docs/, with more.
    common: most runs set it. may_change: in a resumed run, as it says where and how long, not what is done.
    path: may name a file or folder of this machine.
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


@cache
def abouts_of(kind: type) -> dict[str, About]:
    """What each field of a config, a dataclass, means; TypeError for one without meaning or range."""
    found: dict[str, About] = {}
    for field in dataclasses.fields(kind):
        if _ABOUT not in field.metadata:
            raise TypeError(f"{kind.__name__}.{field.name}: a setting needs its meaning, see fl_dp/config.")
        found[field.name] = field.metadata[_ABOUT]
    for name, accepted in declared(kind).items():
        if accepted.kind in (int, float) and accepted.bounds is None:
            raise TypeError(f"{kind.__name__}.{name}: a number needs a range.")
    return found
