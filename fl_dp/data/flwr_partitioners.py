"""flwr_datasets.partitioner, without what it brings along: plots, and a data set for each part."""

import importlib
import importlib.util
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray


def import_partitioners() -> ModuleType:
    """The module `flwr_datasets.partitioner`.

    The package's own __init__ imports its plotting (Matplotlib, seaborn, SciPy's statistics), which
    takes 1.4 s of the 2.1 s and writes font caches into the user's home; every Flower message starts
    a fresh client process, so it would be paid each time. An empty parent package stands in for it
    while the partitioners are imported; it is then taken away, so that a later
    `import flwr_datasets` works as ever.
    """
    name = "flwr_datasets"
    spec = importlib.util.find_spec(name)
    if name in sys.modules or spec is None:
        return importlib.import_module(f"{name}.partitioner")
    stand_in = ModuleType(name)
    stand_in.__path__ = list(spec.submodule_search_locations or ())
    sys.modules[name] = stand_in
    try:
        return importlib.import_module(f"{name}.partitioner")
    finally:
        del sys.modules[name]


def label_data_set(labels: NDArray[np.int64]) -> Any:
    """A data set for the partitioners with one column, "label", whose parts are arrays of row numbers.

    A part that is a `datasets.Dataset` takes a millisecond or two to build and to read, which is most of the
    time when there are thousands of parts.
    """
    from datasets import Dataset

    class Labels(Dataset):  # type: ignore[misc]
        def select(self, indices: Iterable[int], *_: Any, **__: Any) -> NDArray[np.int64]:
            return np.fromiter(indices, dtype=np.int64)

    return Labels.from_dict({"label": labels})
