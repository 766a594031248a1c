"""One read-only copy of the training data for all clients of a machine; a client's part is a view."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from fl_dp.data.files_read import FilesRead
from fl_dp.data.fixed_features import FixedFeatures
from fl_dp.data.persons import Examples, PersonData
from fl_dp.data.tensor_data import TensorData


@dataclass(frozen=True)
class SharedData:
    """All clients' records, one part after the other. Ray stores its arrays once on each machine.

    x, y, classes, vocabulary, raw, features: as in a TensorData. bounds: (parts + 1,); part k is bounds[k] to
    bounds[k + 1]. inputs: the features of x, computed once for all; None: there are none, or this process
    trains no client. groups, most: as in a PersonData, if an example is a person; else empty or 0.
    """

    x: NDArray[Any]
    y: NDArray[Any]
    bounds: NDArray[np.int64]
    classes: tuple[str, ...]
    vocabulary: int = 0
    raw: tuple[bytes, ...] = ()
    groups: tuple[str, ...] = ()
    most: int = 0
    features: FixedFeatures | None = None
    inputs: NDArray[Any] | None = None

    @classmethod
    def of(cls, examples: Examples, parts: Sequence[NDArray[np.int64]]) -> Self:
        """The records of `examples` in the order of `parts`, which hold the records' indices; no inputs."""
        persons = examples if isinstance(examples, PersonData) else None
        data = persons.records if persons else examples
        assert isinstance(data, TensorData)
        order = np.concatenate(parts)
        bounds = np.cumsum([0, *(len(part) for part in parts)])
        raw = tuple(data.raw[i] for i in order) if data.raw else ()
        x, y = data.x.numpy()[order], data.y.numpy()[order]
        groups = tuple(data.groups[i] for i in order) if persons else ()
        most = persons.most if persons else 0
        return cls(x, y, bounds, data.classes, data.vocabulary, raw, groups, most, data.features)

    def __len__(self) -> int:
        """Number of parts."""
        return len(self.bounds) - 1

    def with_inputs(self) -> Self:
        """The same, with the features computed if there are any."""
        if self.features is None:
            return self
        return replace(self, inputs=self.features.of(torch.from_numpy(self.x)).numpy())

    def holds_the_same(self, other: Self) -> bool:
        """Whether both hold the same records in the same parts, to the bit; `inputs` follow from them."""
        arrays = ((self.x, other.x), (self.y, other.y), (self.bounds, other.bounds))
        alone: dict[str, Any] = {"x": None, "y": None, "bounds": None, "inputs": None}
        return replace(self, **alone) == replace(other, **alone) and all(
            one.dtype == two.dtype and np.array_equal(_bits(one), _bits(two)) for one, two in arrays
        )


class SharedParts:
    """The parts of a SharedData as examples that share its memory.

    read: for each part, the files that a ledger knows its records by; empty: none.
    """

    def __init__(self, shared: SharedData, read: Sequence[FilesRead | None] = ()) -> None:
        self._x, self._y = read_only(shared.x), read_only(shared.y)
        self._inputs = None if shared.inputs is None else read_only(shared.inputs)
        self._shared, self._bounds, self._read = shared, shared.bounds, read
        self._persons: dict[int, PersonData] = {}  # cached, because sorting by person takes time

    def __getitem__(self, part: int) -> Examples:
        if not self._shared.most:
            return self._records(part)
        if part not in self._persons:
            self._persons[part] = PersonData(self._records(part), self._shared.most)
        return self._persons[part]

    def _records(self, part: int) -> TensorData:
        start, end = self._bounds[part], self._bounds[part + 1]
        shared = self._shared
        records = TensorData(
            self._x[start:end],
            self._y[start:end],
            shared.classes,
            shared.vocabulary,
            shared.groups[start:end],
            shared.raw[start:end],
            read=self._read[part] if self._read else None,
        )
        if shared.features is None:
            return records
        return records.with_features(
            shared.features, None if self._inputs is None else self._inputs[start:end]
        )


def _bits(array: NDArray[Any]) -> NDArray[Any]:
    """The array's numbers as integers: NaN equals NaN, and -0 does not equal 0."""
    return array.view(f"u{array.dtype.itemsize}")


def read_only(array: NDArray[Any]) -> torch.Tensor:
    """A tensor over read-only memory; nothing in fl_dp writes into data."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(array)
