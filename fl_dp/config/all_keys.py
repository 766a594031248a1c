"""All keys of a config, read from its settings: as docs/keys.md, and as files that explain every key."""

import dataclasses
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap
from typing import Any

from fl_dp.choices import Choices
from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.config.setting import About, Accepted, abouts_of, accepted_by
from fl_dp.config.values import key_of

_FIRST = "Most used"


@dataclass(frozen=True, slots=True)
class Key:
    """One key. default: as TOML; empty: the key is required. expected: which values it accepts."""

    name: str
    default: str
    expected: str
    about: About


def keys_of(kind: type) -> list[Key]:
    """All keys of a config, a dataclass, by group; groups are in the order of their first keys.

    Choices list built-in names only: what other packages add differs between machines.
    """
    abouts, accepted = abouts_of(kind), accepted_by(kind)
    keys = [_key(one, accepted[one.name], abouts[one.name]) for one in dataclasses.fields(kind)]
    groups = list(dict.fromkeys(key.about.group for key in keys))
    return sorted(keys, key=lambda key: groups.index(key.about.group))


def by_group(keys: list[Key], *, common_first: bool = False) -> Iterator[tuple[str, list[Key]]]:
    """The keys by heading. common_first: keys that most runs set come first, under their own heading."""
    rest = keys
    if common_first:
        yield _FIRST, [key for key in keys if key.about.common]
        rest = [key for key in keys if not key.about.common]
    for group, members in groupby(rest, key=lambda key: key.about.group):
        yield group, list(members)


def _key(one: "dataclasses.Field[Any]", accepted: Accepted, about: About) -> Key:
    default = "" if accepted.required else toml_value(one.default)
    names = about.choices.built_in() if isinstance(about.choices, Choices) else about.choices
    expected = ", ".join(filter(None, names)) or ", or ".join(accepted.words)
    return Key(key_of(one.name), default, expected, about)


def toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value)  # same form as TOML's basic strings
    return "inf" if value == math.inf else str(value)


_WIDTH = 96
_ANY_TEXT = "a string"

_PAGE = """\
# All keys

`fl-dp keys --markdown` generates this page from the settings in `fl_dp/config/`: edit meanings there.
On the console, `fl-dp keys` lists a run's keys, `fl-dp keys KEY` explains one, and `fl-dp keys --client`
lists a client's keys. `fl-dp new FILE.toml` writes a file with all of them; `fl-dp check` says what a file
would do.

Files are flat TOML: one `KEY = VALUE` a line. `--set KEY=VALUE` changes a key for one run. `""` is an empty
string: the key is not used. If other packages add names, `fl-dp keys KEY` lists these too.

"""
_RUN_FILE = """\
# A run config: what a federation trains, and at what cost. Every key is here, with its default.
# A key after "# " is not set: remove the "# " to set it.
#
#   fl-dp check {name}        what is wrong, and what it would cost; starts nothing
#   fl-dp run --config {name} --simulate
"""
_CLIENT_FILE = """\
# A client's own settings: its data, its ledger, its limits. No server can change them.
# A key after "# " is not set: remove the "# " to set it.
#
#   fl-dp client --config {name} --kit KIT
#
# Name the data: a ledger lasts, and spending cannot be undone.
"""


def keys_page() -> str:
    """The text of docs/keys.md."""
    return (
        f"{_PAGE}## Keys of a run\n\nThe server's settings, in a run config.\n\n"
        f"{_tables(keys_of(RunConfig))}"
        "## Keys of a client\n\nFor the file that `fl-dp client --config` reads. Keys of data and task mean "
        "the same as in a run\nand must agree with it.\n\n"
        f"{_tables(keys_of(ClientConfig))}"
    ).rstrip("\n") + "\n"


def run_file(name: str) -> str:
    """A run config with all keys, of which the common ones are set. name: of the file, for its comments."""
    return _file(_RUN_FILE.format(name=name), keys_of(RunConfig), common_set=True)


def client_file(name: str) -> str:
    """A client's settings with all keys, of which none is set: each client fills in its own."""
    return _file(_CLIENT_FILE.format(name=name), keys_of(ClientConfig), common_set=False)


def _tables(keys: list[Key]) -> str:
    lines = []
    for group, members in by_group(keys):
        lines += [f"### {group}\n", "| key | default | values | meaning |", "|---|---|---|---|"]
        lines += [*map(_row, members), ""]
    return "\n".join(lines) + "\n"


def _row(key: Key) -> str:
    page = f" ([{key.about.page.partition('#')[0]}]({key.about.page}))" if key.about.page else ""
    default = f"`{key.default}`" if key.default else ""
    values = key.expected.replace("<", "&lt;").replace(">", "&gt;")
    cells = (f"`{key.name}`", default, values, key.about.meaning + page)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _file(head: str, keys: list[Key], *, common_set: bool) -> str:
    """common_set: the lines of common keys are not commented out."""
    parts = [head]
    for group, members in by_group(keys, common_first=True):
        parts.append(f"\n# ---- {group} {'-' * (_WIDTH - len(group) - 8)}\n")
        parts += [_lines(key, common_set and key.about.common) for key in members]
    return "".join(parts)


def _lines(key: Key, is_set: bool) -> str:
    """The key's line, with a comment that explains it."""
    page = f" (docs/{key.about.page.partition('#')[0]})" if key.about.page else ""
    values = "" if key.expected == _ANY_TEXT else f" Values: {key.expected}."
    words = f"{key.about.meaning}{page}.{values}"
    comment = "".join(f"## {line}\n" for line in wrap(words, _WIDTH - 3, break_on_hyphens=False))
    value = key.default or '""'
    return f"\n{comment}{'' if is_set else '# '}{key.name} = {value}\n"
