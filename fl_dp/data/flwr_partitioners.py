"""flwr_datasets.partitioner, without its slow imports: plotting and `datasets`."""

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np

from fl_dp.data.partition_scheme import Indices, Labels

_PACKAGE, _DATA_SETS = "flwr_datasets", "datasets"

# The first is followed by a DataError; partitions.py explains the others.
_EXPECTED_WARNINGS = (
    "The specified min_partition_size",
    "Classes: .* will NOT be used",
    "The sum of the partition_sizes",
)


def split_by(partitioner: Any, labels: Labels, number: int) -> list[Indices]:
    """The `number` parts that one of flwr's `partitioners` makes of `labels`, as row numbers."""
    partitioner.dataset = LabelDataSet(labels)
    with warnings.catch_warnings():
        for message in _EXPECTED_WARNINGS:
            warnings.filterwarnings("ignore", message)
        return [partitioner.load_partition(part) for part in range(number)]


class LabelDataSet:
    """What partitioners use of `datasets.Dataset`, with one column. A part is an array of row numbers.

    A data set object takes a millisecond or two to build and read; with thousands of parts that is most of
    the time.
    """

    def __init__(self, labels: Labels, rows: Indices | None = None) -> None:
        """rows: the row number of each label; its position if left out."""
        self._labels = labels
        self._rows = np.arange(len(labels)) if rows is None else rows

    def __len__(self) -> int:
        return len(self._labels)

    @property
    def num_rows(self) -> int:
        return len(self)

    def __getitem__(self, column: str) -> Labels:
        """The labels: there is no other column."""
        return self._labels

    def unique(self, column: str) -> list[int]:
        return [int(label) for label in np.unique(self._labels)]

    def select(self, indices: Iterable[int]) -> Indices:
        return self._rows[np.fromiter(indices, dtype=np.int64)]

    def sort(self, column: str) -> "LabelDataSet":
        """Sorted by label; rows of one label stay in their order, as in `datasets`."""
        order = np.argsort(self._labels, kind="stable")
        return LabelDataSet(self._labels[order], self._rows[order])

    def shard(self, num_shards: int, index: int, contiguous: bool) -> Indices:
        """Part `index` of `num_shards` parts, whose sizes differ by at most one; larger ones come first."""
        if not contiguous:
            raise NotImplementedError("only parts of neighbouring rows")
        size, larger = divmod(len(self), num_shards)
        start = index * size + min(index, larger)
        return self._rows[start : start + size + (index < larger)]


@lru_cache(maxsize=1)
def partitioners() -> ModuleType:
    """The module `flwr_datasets.partitioner`, whose partitioners accept only a LabelDataSet.

    The package's __init__ imports plotting (Matplotlib, seaborn, SciPy's statistics). Its partitioners import
    `datasets` (pandas, PyArrow, aiohttp) for one type. Together that takes 2 s and 100 MiB in every process
    that splits data, and Flower starts a process for each message. So two stand-ins exist during the import:
    an empty package, and a `datasets` with that type alone. Afterwards they and this copy are removed:
    `import flwr_datasets` then imports the real package.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    package, data_sets = ModuleType(_PACKAGE), ModuleType(_DATA_SETS)
    package.__path__ = list(spec.submodule_search_locations or ()) if spec else []
    data_sets.Dataset = LabelDataSet  # type: ignore[attr-defined]
    with _imported_instead({_PACKAGE: package, _DATA_SETS: data_sets}):
        return importlib.import_module(f"{_PACKAGE}.partitioner")


@contextmanager
def _imported_instead(stand_ins: dict[str, ModuleType]) -> Iterator[None]:
    """Within the block, imports of these names give the stand-ins; afterwards all is as before."""
    real = _take_out(stand_ins)
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        _take_out(stand_ins)
        sys.modules.update(real)


def _take_out(packages: Iterable[str]) -> dict[str, ModuleType]:
    """Remove the packages and all modules below them from `sys.modules`, and return them."""
    roots = set(packages)
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in roots}
