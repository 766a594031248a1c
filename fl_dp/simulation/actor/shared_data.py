"""One read-only copy of the training data for all clients of a machine; a client's part is a view."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from fl_dp.data.tensor_data import TensorData


@dataclass(frozen=True)
class SharedData:
    """All clients' records, one part after the other. Ray stores its arrays once on each machine.

    x, y, classes, vocabulary, raw: as in a TensorData. bounds: (parts + 1,); part k is bounds[k] to
    bounds[k + 1].
    """

    x: NDArray[Any]
    y: NDArray[Any]
    bounds: NDArray[np.int64]
    classes: tuple[str, ...]
    vocabulary: int = 0
    raw: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, data: TensorData, parts: Sequence[NDArray[np.int64]]) -> Self:
        """The records of `data` in the order of `parts`, which hold their indices."""
        order = np.concatenate(parts)
        bounds = np.cumsum([0, *(len(part) for part in parts)])
        raw = tuple(data.raw[i] for i in order) if data.raw else ()
        x, y = data.x.numpy()[order], data.y.numpy()[order]
        return cls(x, y, bounds, data.classes, data.vocabulary, raw)

    def __len__(self) -> int:
        """Number of parts."""
        return len(self.bounds) - 1


class SharedParts:
    """The parts of a SharedData as TensorData that share its memory."""

    def __init__(self, shared: SharedData) -> None:
        self._x, self._y = _read_only(shared.x), _read_only(shared.y)
        self._shared, self._bounds = shared, shared.bounds

    def __getitem__(self, part: int) -> TensorData:
        start, end = self._bounds[part], self._bounds[part + 1]
        shared = self._shared
        raw = shared.raw[start:end]
        return TensorData(self._x[start:end], self._y[start:end], shared.classes, shared.vocabulary, raw=raw)


def _read_only(array: NDArray[Any]) -> torch.Tensor:
    """A tensor over memory that must not be written to; nothing in fl_dp writes into data."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(array)
