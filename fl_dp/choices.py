"""Plug-ins by name: a choice is a file in a folder of choices, or a row of a table in such a file.

Users write the file's name. The file describes its choice in one constant, the descriptor. A file with a dict
`CHOICES` holds several choices: each key is a name that users write, each value its descriptor. A kind of
choice may also be one such file. Listing the names imports nothing; only the chosen file is imported. Another
package adds a choice by an entry point in the group `fl_dp.<folder>` that names a descriptor. It never
replaces a built-in choice.
"""

import ast
import difflib
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from fl_dp.errors import ConfigError

Descriptor = TypeVar("Descriptor")
_ALIKE = 0.72  # similarity of two words, from 0 to 1, above which one is suggested for the other
_FEW = 12  # the most names that an error lists
_TABLE = "CHOICES"


@dataclass(frozen=True, slots=True)
class Choices:
    """One kind of choice.

    key: the setting whose value is a name of this kind. package: the folder, or the one file. constant: the
    descriptor's name in a choice's own file. dashed: users write `-` where the file's name has `_`.
    A value may be NAME:ARGUMENT; the descriptor says whether the choice takes an argument.
    """

    key: str
    package: str
    constant: str
    dashed: bool = False

    @property
    def group(self) -> str:
        """The entry points' group: `fl_dp.architectures` for the folder fl_dp/models/architectures."""
        return f"fl_dp.{self.package.rpartition('.')[2]}"

    def built_in(self) -> tuple[str, ...]:
        """The names of the built-in choices, sorted. Imports none of them."""
        return tuple(sorted(_files(self.package, self.dashed)))

    def names(self) -> tuple[str, ...]:
        """All names, sorted: built-in ones, and entry points of other packages."""
        return tuple(sorted({*self.built_in(), *(one.name for one in entry_points(group=self.group))}))

    def module(self, name: str) -> str:
        """The module of a built-in choice; it is not imported."""
        return _files(self.package, self.dashed)[name]

    def check(self, value: str, key: str = "", also: str = "") -> None:
        """ConfigError unless `value`, without its argument, is a name.

        key: the setting to name in the error, if not `self.key`. also: another accepted form, which the
        caller has already tried; for the message only.
        """
        name = value.partition(":")[0]
        if name not in self.built_in() and name not in self.names():
            expected = one_of(value, self.names(), key=self.key, also=also)
            raise ConfigError(f"{key or self.key} = {value!r}: {expected}")

    def check_built_in(self, value: str, what: str) -> None:
        """ConfigError unless `value` names a built-in choice. what: what is expected, for the message."""
        self.check(value)
        if value not in self.built_in():
            raise ConfigError(
                f"{self.key} = {value!r}: it comes from another package; expected {what}: "
                f"{' or '.join(self.built_in())}."
            )

    def load(self, value: str, kind: type[Descriptor]) -> Descriptor:
        """The descriptor of the choice that `value` names, of type `kind`. Imports only its file.

        Raises ConfigError for an unknown name, and for a file without such a descriptor.
        """
        self.check(value)
        where, descriptor = self._found(value.partition(":")[0])
        if isinstance(descriptor, kind):
            return descriptor
        found = "nothing" if descriptor is None else f"{descriptor!r:.60}"
        raise ConfigError(
            f"{self.key} = {value!r}: {where} cannot be used: its {self.constant} is {found}, expected "
            f"{'a class' if kind is type else f'a {kind.__name__}'}."
        )

    def _found(self, name: str) -> tuple[str, object]:
        """The choice's location, and its descriptor or None; ConfigError if its file cannot be imported."""
        entry = None
        if name in self.built_in():
            where = self.module(name)
        else:
            entry = next(one for one in entry_points(group=self.group) if one.name == name)
            where = f"{entry.value} (entry point {name} of {self.group})"
        try:
            if entry:
                return where, entry.load()
            held = vars(import_module(where))
            return where, held.get(_TABLE, {}).get(name, held.get(self.constant))
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
            raise ConfigError(f"{self.key} = {name!r}: {where} cannot be used: {words}") from error

    def argument(self, value: str, wanted: str | None, *, optional: bool = False) -> str:
        """The ARGUMENT of `value` = NAME:ARGUMENT; empty if the choice takes none, or if it is left out.

        wanted: the descriptor's name for the argument; None: the choice takes none. optional: argument and
        colon may be left out. ConfigError for a missing argument, and for one that the choice does not take.
        """
        name, colon, argument = value.partition(":")
        if wanted is None and colon:
            raise ConfigError(f"{self.key} = {value!r}: {name} takes no argument; write {name}.")
        if wanted is not None and not argument and (colon or not optional):
            raise ConfigError(f"{self.key} = {value!r}: {name} takes an argument; write {name}:{wanted}.")
        return argument


def nearest(word: str, names: Collection[str]) -> str:
    """The name most similar to `word`, whose argument does not count; empty if none is similar enough."""
    name = word.partition(":")[0].lower().replace("_", "-")
    alike = {one.lower().replace("_", "-"): one for one in names}
    return next((alike[one] for one in difflib.get_close_matches(name, alike, 1, _ALIKE)), "")


def one_of(value: str, names: Collection[str], *, key: str = "", also: str = "") -> str:
    """The end of an error message: the allowed names, or the command that lists them, and a suggestion.

    A file's path suggests the choice of its extension: for a.csv, csv:a.csv.
    key: the setting, if `fl-dp keys` lists it. also: another accepted form.
    """
    many = bool(key) and len(names) > _FEW
    expected = f"one of {len(names)} names, see fl-dp keys {key}" if many else " or ".join(names)
    ending = value.rpartition(".")[2].lower()
    near = f"{ending}:{value}" if ending in names and "." in value else nearest(value, names)
    meant = f"; did you mean {near}?" if near else "."
    return f"expected {expected}{', or ' if also else ''}{also}{meant}"


@lru_cache(maxsize=32)
def _files(package: str, dashed: bool) -> dict[str, str]:
    """The module of each choice, by the name that users write: the file's, or its row's."""
    spec = find_spec(package)
    if spec is None:
        raise ConfigError(f"{package}: no such folder; is fl_dp installed completely?")
    files = {package: Path(spec.origin or "")}
    if spec.submodule_search_locations is not None:
        found = (file for folder in spec.submodule_search_locations for file in Path(folder).glob("*.py"))
        files = {f"{package}.{file.stem}": file for file in found if file.stem != "__init__"}
    held: dict[str, str] = {}
    for module, file in files.items():
        for name in _rows(file) or [file.stem.replace("_", "-") if dashed else file.stem]:
            if name in held:
                raise ConfigError(f"{held[name]} and {module} both hold {name!r}; remove one of them.")
            held[name] = module
    return held


def _rows(file: Path) -> list[str]:
    """The names in the file's table, read without importing it; none if it has no table."""
    text = file.read_text("utf-8")
    if f"\n{_TABLE} = {{" in text:
        for statement in ast.parse(text).body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(keys=keys)) if name == _TABLE:
                    return [ast.literal_eval(key) for key in keys if key]
    return []


ACCOUNTANTS = Choices("accountant", "fl_dp.accounting.accountants", "ACCOUNTANT")
FEATURES = Choices("features", "fl_dp.data.features", "FEATURES")
CHECKS = Choices("check", "fl_dp.verify.checks", "CHECK", dashed=True)
MODELS = Choices("model", "fl_dp.models.architectures", "MODEL", dashed=True)
PARTITIONS = Choices("partition", "fl_dp.data.partitions", "PARTITION")
RULES = Choices("rule", "fl_dp.engine.rules", "RULES")
AUGMENTATIONS = Choices("augmentation", "fl_dp.training.augmentations", "AUGMENTATION", dashed=True)
SOURCES = Choices("data", "fl_dp.data.sources", "SOURCE")
LOCAL_ALGORITHMS = Choices(
    "local-algorithm", "fl_dp.training.local_algorithms", "LOCAL_ALGORITHM", dashed=True
)
TRACKERS = Choices("track", "fl_dp.reporting.trackers", "TRACKER")
LOSSES = Choices("loss", "fl_dp.training.losses", "LOSS", dashed=True)
METRICS = Choices("metrics", "fl_dp.tasks.metrics", "METRIC", dashed=True)
AGGREGATIONS = Choices("aggregation", "fl_dp.federation.server.aggregations", "AGGREGATION", dashed=True)
SERVER_OPTIMIZERS = Choices(
    "server-optimizer", "fl_dp.federation.server.optimizers", "SERVER_OPTIMIZER", dashed=True
)
