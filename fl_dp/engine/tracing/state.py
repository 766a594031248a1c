"""What a model holds at a moment, by identity: quick enough for every pass, and enough to restore it.

Assigned, registered, appended or deleted: whatever a forward pass does to its modules, some table of theirs
then holds another object, or a tensor has another version. What `.data` and NumPy views change shows in
contents alone (`writes.py`).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from operator import is_, itemgetter
from types import MappingProxyType, ModuleType
from typing import Any

from torch import Tensor, nn

from fl_dp.engine.tracing.structure import children

_OF_EVERY_MODULE = frozenset(vars(nn.Module()))  # its parameters, buffers, modules, hooks and mode
_MODE = "training"  # which the user may switch
PLAIN = bool | int | float | complex | str | bytes | None
# Packages to whose classes nobody assigns.
_OF_TORCH = frozenset({"torch", "builtins", "collections", "abc", "typing"})
# Packages that train the model: their objects change all the time, and the model does not read them.
_FOREIGN = frozenset(
    {"lightning", "pytorch_lightning", "lightning_fabric", "accelerate", "fl_dp", "logging", "threading"}
)
_MOST = 20_000  # objects that are looked into


@dataclass(frozen=True, slots=True)
class Table:
    """A place that holds objects: the parameters, buffers, modules or attributes of a module, a container in
    one of these, or the attributes of a class.

    lasts: whether a write there cannot be undone without a trace: the place is in the `state_dict`, or
    belongs to all models of a class. entries: by key or place, when it was found.
    """

    path: str
    kind: str
    owner: Any  # a dict, list, deque or set, or the attributes of a class
    lasts: Callable[[Any], bool]
    entries: Mapping[Any, Any]

    def name(self, key: Any) -> str:
        inside = self.kind == "entry"
        return f"{self.path}[{key!r}]" if inside else f"{self.path}.{key}".lstrip(".")

    @property
    def own(self) -> Mapping[Any, Any]:
        """The entries without what PyTorch keeps in each module."""
        if _MODE not in self.entries:
            return self.entries
        return {key: value for key, value in self.entries.items() if key not in _OF_EVERY_MODULE}

    def getter(self) -> Callable[[], Iterable[Any]]:
        """Gives the entries that may be others later, and whether a module is in training mode."""
        if self.kind == "attribute" and _MODE in self.entries:
            return partial(itemgetter(*self.own, _MODE, _MODE), self.owner)
        return getattr(self.owner, "values", self.owner.__iter__)  # type: ignore[no-any-return]

    def put_back(self, now: Mapping[Any, Any], *, lasting: bool) -> None:
        """Let the place hold its entries again, where it has others `now`; other places stay as they are."""
        if isinstance(self.owner, dict):
            for key in {**now, **self.entries}:
                same = now.get(key, _NOTHING) is self.entries.get(key, _NOTHING)
                if key == _MODE or same or (self.lasts(key) and not lasting):
                    continue
                if key in self.entries:
                    self.owner[key] = self.entries[key]
                else:
                    self.owner.pop(key, None)
        elif not isinstance(self.owner, MappingProxyType) and not _same(now.values(), self.entries.values()):
            self.owner.clear()
            (self.owner.update if isinstance(self.owner, set) else self.owner.extend)(self.entries.values())


@dataclass(frozen=True, slots=True)
class Written:
    """An entry that is not what it was, or a tensor that was written in place.

    lasts: it cannot be put back, or is in the `state_dict`.
    """

    path: str
    kind: str
    lasts: bool

    @property
    def is_attribute(self) -> bool:
        """Whether it is no parameter, buffer, module, or attribute of a class."""
        return self.kind in ("attribute", "entry")


# Where a tensor is, the kind of that place, and the tensor.
_Found = tuple[str, str, Tensor]


@dataclass(frozen=True, slots=True)
class Moment:
    """What the model held. It refers to all of it, so that no address is used again."""

    tables: Mapping[tuple[str, str], Table]
    tensors: tuple[_Found, ...]
    versions: list[int]

    def changes(self, now: "Moment") -> list[Written]:
        """What is not the same `now`."""
        if self.tables is now.tables and self.versions == now.versions:
            return []
        found = []
        for place, table in self.tables.items():
            if (other := now.tables.get(place)) is not None:  # else what holds it was replaced, and is found
                for key in {**table.entries, **other.entries}:
                    before, after = (one.entries.get(key, _NOTHING) for one in (table, other))
                    if key != _MODE and not equal(before, after):
                        found.append(Written(table.name(key), table.kind, table.lasts(key)))
        for (path, kind, tensor), version in zip(self.tensors, self.versions, strict=True):
            if tensor._version != version:
                found.append(Written(path, kind, lasts=True))
        return found

    def put_back(self, now: "Moment", *, lasting: bool = True) -> None:
        """Undo what differs `now`, but tensors that were written in place, and attributes of classes.

        lasting: also parameters, buffers of the `state_dict`, and modules.
        """
        for place, table in self.tables.items():
            other = now.tables.get(place)
            if other is None or other.owner is not table.owner:  # replaced, and put back by what holds it
                table.put_back(dict(_entries(table.owner)), lasting=lasting)
            elif other is not table:
                table.put_back(other.entries, lasting=lasting)


@dataclass(slots=True)
class State:
    """Looks at a model again and again; quick where nothing was replaced since the last time."""

    model: nn.Module
    tables: dict[tuple[str, str], Table] = field(default_factory=dict)
    _owners: list[Any] = field(default_factory=list)
    _sizes: list[int] = field(default_factory=list)
    _getters: list[Callable[[], Iterable[Any]]] = field(default_factory=list)
    _values: list[Any] = field(default_factory=list)
    _tensors: tuple[_Found, ...] = ()

    def look(self) -> Moment:
        if not self._owners or not self._is_as_before():
            self._walk()
        return Moment(self.tables, self._tensors, [tensor._version for _, _, tensor in self._tensors])

    def buffer_versions(self) -> list[int]:
        """Of the buffers, as of the last look; and which object each is."""
        found = [tensor for _, kind, tensor in self._tensors if kind == "buffer"]
        return [*(tensor._version for tensor in found), *map(id, found)]

    def _is_as_before(self) -> bool:
        try:
            return list(map(len, self._owners)) == self._sizes and all(map(is_, self._found(), self._values))
        except KeyError:  # an attribute that is gone
            return False

    def _found(self) -> Iterator[Any]:
        return chain.from_iterable([get() for get in self._getters])

    def _walk(self) -> None:
        self.tables = {(one.path, one.kind): one for one in tables_of(self.model)}
        tables = self.tables.values()
        self._owners, self._sizes = [one.owner for one in tables], [len(one.owner) for one in tables]
        self._getters = [one.getter() for one in tables if one.entries]
        self._values = list(self._found())
        self._tensors = tuple(
            (path, one.kind, tensor)
            for one in tables
            for key, value in one.entries.items()
            for path, tensor in _tensors(value, one.name(key))
        )


def is_lasting(model: nn.Module, buffer: str) -> bool:
    """Whether the buffer of that name is in the model's `state_dict`."""
    module, _, name = buffer.rpartition(".")
    return name not in model.get_submodule(module)._non_persistent_buffers_set


_NOTHING = object()


def _entries(owner: Any) -> Mapping[Any, Any]:
    return owner if isinstance(owner, Mapping) else dict(enumerate(owner))


def _same(some: Iterable[Any], others: Iterable[Any]) -> bool:
    some, others = list(some), list(others)
    return len(some) == len(others) and all(map(is_, some, others))


def equal(one: Any, other: Any) -> bool:
    """Whether both are one object, or plain values that are the same number or text; NaN equals NaN."""
    plain = isinstance(one, PLAIN) and type(one) is type(other)
    return one is other or (plain and (one == other or (one != one and other != other)))


def _tensors(value: Any, path: str) -> Iterator[tuple[str, Tensor]]:
    """Those of a place that have a version, also inside of a tuple."""
    if isinstance(value, Tensor) and not value.is_inference():
        yield path, value
    elif isinstance(value, tuple):
        for step, child in children(value):
            yield from _tensors(child, path + step)


def tables_of(model: nn.Module) -> Iterator[Table]:
    modules = dict(model.named_modules())
    seen = {id(module) for module in modules.values()}
    kinds = {
        kind
        for module in modules.values()
        for kind in type(module).__mro__
        if _package(kind) not in _OF_TORCH
    }
    for path, module in modules.items():
        yield from _of_module(module, path, seen)
    for kind in kinds:
        yield Table(kind.__qualname__, "class attribute", vars(kind), _always, dict(vars(kind)))
        for key, value in vars(kind).items():
            yield from _inside(value, f"{kind.__qualname__}.{key}", seen)


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _always(key: Any) -> bool:
    return True


def _never(key: Any) -> bool:
    return False


def _of_module(module: nn.Module, path: str, seen: set[int]) -> Iterator[Table]:
    temporary = module._non_persistent_buffers_set
    yield Table(path, "parameter", module._parameters, _always, dict(module._parameters))
    yield Table(path, "buffer", module._buffers, lambda key: key not in temporary, dict(module._buffers))
    yield Table(path, "module", module._modules, _always, dict(module._modules))
    yield Table(path, "attribute", vars(module), _never, dict(vars(module)))
    for key, value in vars(module).items():
        if key not in _OF_EVERY_MODULE:
            yield from _inside(value, f"{path}.{key}".lstrip("."), seen)


def _inside(value: Any, path: str, seen: set[int]) -> Iterator[Table]:
    """The tables of a container or an object, and of what they hold; not of objects with `__slots__`."""
    if isinstance(value, Tensor | PLAIN | type | ModuleType) or id(value) in seen or len(seen) > _MOST:
        return
    seen.add(id(value))
    if isinstance(value, nn.Module):  # in a list of Python's, which registers nothing
        yield from _of_module(value, path, seen)
        return
    if isinstance(value, dict):
        yield Table(path, "entry", value, _never, dict(value))
    elif isinstance(value, list | deque | set):
        yield Table(path, "entry", value, _never, _entries(value))
    elif isinstance(getattr(value, "__dict__", None), dict) and _package(type(value)) not in _FOREIGN:
        yield Table(path, "attribute", vars(value), _never, dict(vars(value)))
        for key, child in vars(value).items():
            yield from _inside(child, f"{path}.{key}", seen)
        return
    inside = list(value) if isinstance(value, deque) else value
    for step, child in children(inside):
        yield from _inside(child, path + step, seen)
