"""flwr_datasets.partitioner without what it brings along: plots, `datasets`, a data set for each part."""

import importlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]

_PACKAGE, _DATA_SETS = "flwr_datasets", "datasets"


class LabelDataSet:
    """As much of a `datasets.Dataset` with one column as partitioners use; a part is an array of row numbers.

    A part that is itself a data set takes a millisecond or two to build and to read, which is most of the
    time when there are thousands of parts.
    """

    def __init__(self, labels: Rows) -> None:
        self._labels = labels

    def __len__(self) -> int:
        return len(self._labels)

    @property
    def num_rows(self) -> int:
        return len(self)

    def __getitem__(self, column: str) -> Rows:
        """The labels, whatever the column's name: there is no other column."""
        return self._labels

    def unique(self, column: str) -> list[int]:
        return [int(label) for label in np.unique(self._labels)]

    def select(self, indices: Iterable[int]) -> Rows:
        return np.fromiter(indices, dtype=np.int64)

    def shard(self, num_shards: int, index: int, contiguous: bool) -> Rows:
        """Part number `index` of `num_shards` whose sizes differ by one at most, the larger ones first."""
        if not contiguous:
            raise NotImplementedError("only parts of neighbouring rows")
        size, larger = divmod(len(self), num_shards)
        start = index * size + min(index, larger)
        return np.arange(start, start + size + (index < larger))


@lru_cache(maxsize=1)
def partitioners() -> ModuleType:
    """The module `flwr_datasets.partitioner`, whose partitioners take a LabelDataSet and nothing else.

    The package's own __init__ imports its plotting (Matplotlib, seaborn, SciPy's statistics), and its
    partitioners `datasets` for the type of what they cut (pandas, PyArrow, aiohttp): 2 s and 100 MiB, paid by
    every process that cuts data, and with Flower that is one for each message. An empty package and a
    `datasets` that holds the type alone stand in for them while the partitioners are imported. Both are then
    taken away, and the copy with them: whoever imports flwr_datasets gets all of it, as ever.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    package, data_sets = ModuleType(_PACKAGE), ModuleType(_DATA_SETS)
    package.__path__ = list(spec.submodule_search_locations or ()) if spec else []
    data_sets.Dataset = LabelDataSet  # type: ignore[attr-defined]
    with _in_place_of_the_real_ones({_PACKAGE: package, _DATA_SETS: data_sets}):
        return importlib.import_module(f"{_PACKAGE}.partitioner")


@contextmanager
def _in_place_of_the_real_ones(stand_ins: dict[str, ModuleType]) -> Iterator[None]:
    """Within it, `stand_ins` are what is imported by their names. What is then imported below them goes."""
    real = _take_out(stand_ins)
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        _take_out(stand_ins)
        sys.modules.update(real)


def _take_out(packages: Iterable[str]) -> dict[str, ModuleType]:
    """The packages' modules, no longer among those that are imported."""
    roots = set(packages)
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in roots}
