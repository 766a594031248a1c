"""Private steps by the weights and records that they used, not by the engine that took them.

Whoever sees the final weights has seen the result of every step over them, whichever engine took it. So two
engines over one model, or over one data set, share one count.
"""

import gc
import secrets
from collections.abc import Hashable, Iterable, Mapping, Sized
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import ConcatDataset, Subset, TensorDataset
from torch.utils.weak import WeakIdKeyDictionary

from fl_dp.errors import ConfigError
from fl_dp.records import Entry


@dataclass(eq=False)
class Series:
    """Steps of one price, taken by one engine.

    key: random; a saved state names its series by it. holder: the attachment of that engine, while there is
    one.
    """

    sample_rate: float
    noise_multiplier: float
    taken: int = 0
    key: str = field(default_factory=lambda: secrets.token_hex(16))
    holder: "ref[Any] | None" = None

    @property
    def is_attached(self) -> bool:
        return self.holder is not None and self.holder() is not None

    def to_dict(self) -> dict[str, Any]:
        names = ("key", "sample_rate", "noise_multiplier", "taken")
        return {name: getattr(self, name) for name in names}


_BOOKS: Any = WeakIdKeyDictionary()  # a parameter, a data set -> the list of its series


class Count:
    """All series over the weights and records of one engine. own: that engine's."""

    def __init__(self, own: Series) -> None:
        self.own = own
        self._line = [own]  # what counts wherever this engine's steps do: its own, and those of loaded states
        self._books: list[list[Series]] = [self._line]

    @property
    def series(self) -> list[Series]:
        """Each series once, including those that joined the weights or records later."""
        found: dict[str, Series] = {}
        for one in (one for book in self._books for one in book):
            if one.key not in found or one.taken > found[one.key].taken:
                found[one.key] = one
        return list(found.values())

    @property
    def steps(self) -> int:
        return sum(one.taken for one in self.series)

    @property
    def steps_of_line(self) -> int:
        """Of this engine, and of the states that it has loaded."""
        return sum(one.taken for one in self._line)

    @property
    def unprotected(self) -> int:
        """Of optimizers without an engine, and of other engines without noise."""
        line = {one.key for one in self._line}
        return sum(one.taken for one in self.series if not one.noise_multiplier and one.key not in line)

    def entries(self, steps: int) -> list[Entry]:
        """All other series, and as many of this engine's own steps as make up `steps` in total.

        Raises ConfigError for fewer steps than the other series have.
        """
        others = [one for one in self.series if one.key != self.own.key]
        before = sum(one.taken for one in others)
        if steps < before:
            raise ConfigError(
                f"Expected steps={steps} >= {before}, the steps that are not this engine's own."
            )
        counted = [(one, one.taken) for one in others] + [(self.own, steps - before)]
        return [Entry(one.sample_rate, one.noise_multiplier, taken) for one, taken in counted if taken]

    def join(
        self, things: Iterable[object], what: str, *, moved: bool = True, anew: bool = False
    ) -> set[Series]:
        """Count with all others over these parameters or data sets. Returns what was forgotten.

        moved: whether this engine's steps count there, too. anew: forget what was counted before.
        ConfigError, and nothing is joined, while another engine is attached to one of them.
        """
        things = [thing for thing in things if _can_be_referred_to(thing)]
        if any(self._others(thing) for thing in things):
            gc.collect()  # an engine that nothing refers to any more, as after a notebook's cell ran again
        if any(self._others(thing) for thing in things):
            raise ConfigError(
                f"Another PrivacyEngine is attached over {what}: their epsilons would add up, and neither "
                "would report it. Call detach() of that engine first: this one then continues its count. To "
                "train parts differently, give one engine one optimizer with several parameter groups."
            )
        others = {one for thing in things for one in _BOOKS.get(thing, ()) if anew and one is not self.own}
        for thing in things:
            if anew or thing not in _BOOKS:
                _BOOKS[thing] = []
            book = _BOOKS[thing]
            if moved:
                book.extend(one for one in self._line if one not in book)
            if not any(book is known for known in self._books):
                self._books.append(book)
        return others

    def _others(self, thing: object) -> bool:
        return any(one.is_attached for one in _BOOKS.get(thing, ()) if one is not self.own)

    def load(self, saved: Iterable[Mapping[str, Any]]) -> bool:
        """Count the series of a saved state, too; none becomes shorter. Returns whether one was not known."""
        known = {one.key: one for one in self.series}
        new = [Series(**row) for row in saved if row["key"] not in known]
        for row in saved:
            if row["key"] in known:
                known[row["key"]].taken = max(known[row["key"]].taken, row["taken"])
        for book in self._books:  # the first is the line
            book.extend(new)
        return bool(new)


def note(series: Series, things: Iterable[object]) -> None:
    """Let `series` count for every engine over these parameters."""
    for thing in things:
        if series not in (book := _BOOKS.setdefault(thing, [])):
            book.append(series)


def records_behind(dataset: object) -> list[object]:
    """The data sets of which Subset and ConcatDataset made this one, and their tensors.

    Raises ConfigError if one of their records is in several places.
    """
    bases: dict[Hashable, object] = {}
    places = _places(dataset, bases)
    if isinstance(dataset, Subset | ConcatDataset) and len(np.unique(places)) < len(places):
        raise ConfigError(
            "The data set has a record in several places (repeated indices of a Subset, a ConcatDataset of "
            "overlapping parts): a record would be drawn more often than its rate. Give each one place; to "
            "let some weigh more, multiply their losses by a factor."
        )
    found = list(bases.values())
    memories = [_memory_of(one) for base in found if isinstance(base, TensorDataset) for one in base.tensors]
    return found + memories


def is_within(dataset: object, records: object) -> bool:
    """Whether it is the same object, or all of it comes from there by Subset and ConcatDataset."""
    bases: dict[Hashable, object] = {}
    whole = _places(records, bases)
    known = len(bases)
    return bool(np.isin(_places(dataset, bases), whole).all()) and len(bases) == known


def state_of(dataset: object) -> list[tuple[object, int]]:
    """The memory of all tensors behind a data set, and how often each was written to."""
    bases: dict[Hashable, object] = {}
    _places(dataset, bases)
    tensors = (one for base in bases.values() if isinstance(base, TensorDataset) for one in base.tensors)
    return [(_memory_of(one), 0 if one.is_inference() else one._version) for one in tensors]


class _Memory:
    """Stands for all tensors that read the same memory in the same way."""


_MEMORIES: Any = WeakIdKeyDictionary()  # a tensor's storage -> how it is read -> its _Memory


def _memory_of(tensor: Tensor) -> object:
    if tensor.layout != torch.strided:
        return tensor
    read = tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype
    return _MEMORIES.setdefault(tensor.untyped_storage(), {}).setdefault(read, _Memory())


def _places(dataset: object, bases: dict[Hashable, object]) -> NDArray[np.int64]:
    """A number for each record, the same for the same record of the same base."""
    if isinstance(dataset, ConcatDataset):
        return np.concatenate([_places(one, bases) for one in dataset.datasets])
    if isinstance(dataset, Subset) and isinstance(dataset.dataset, Sized):
        return _places(dataset.dataset, bases)[np.asarray(dataset.indices, dtype=np.int64)]
    parts = map(_memory_of, dataset.tensors) if isinstance(dataset, TensorDataset) else (dataset,)
    key = tuple(map(id, parts))
    bases.setdefault(key, dataset)
    return (list(bases).index(key) << 40) + np.arange(len(dataset) if isinstance(dataset, Sized) else 0)


def _can_be_referred_to(thing: object) -> bool:
    try:
        ref(thing)
    except TypeError:  # a list of records, for one
        return False
    return True
