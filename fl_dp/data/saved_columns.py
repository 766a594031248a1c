"""The columns of a saved Hugging Face data set: which they are, and what they hold."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fl_dp.errors import DataError

_INPUTS = ("image", "img", "features", "input_ids", "text")
_LABELS = ("label", "labels", "target")
Kind = Literal["image", "text", "numbers", "number", "tokens", "class", "other"]


@dataclass(frozen=True)
class Column:
    """One column of `saved`. where: path and name, for errors. kind: of its values, as declared."""

    saved: Any
    name: str
    where: str
    kind: Kind

    def __len__(self) -> int:
        return len(self.saved)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of a ClassLabel's values; empty for numbers."""
        return tuple(self.saved.features[self.name].names) if self.kind == "class" else ()

    def contents(self) -> Iterator[bytes]:
        """Each value's bytes as saved: a class by its name, numbers as float32, tokens as int64."""
        if self.kind == "image":
            return map(self._image_bytes, self._values)
        if self.kind == "text":
            return (text.encode() for text in self._values)
        if self.kind == "class":
            return (self._class_name(label).encode() for label in self._values)
        if self.kind == "tokens":
            return (np.asarray(tokens, np.int64).tobytes() for tokens in self._values)
        return (row.tobytes() for row in self.numbers().numpy())

    def numbers(self) -> Tensor:
        """float32 (n, ...); DataError if rows differ in shape."""
        if self.kind not in ("numbers", "number"):
            raise DataError(f"{self.where}: expected floats.")
        return torch.from_numpy(self._numbers)

    def targets(self) -> Tensor:
        """int64 classes (n,), or float32 (n,) or (n, k)."""
        if self.kind == "class":
            return torch.tensor(self._values, dtype=torch.int64)
        if self.kind in ("numbers", "number"):
            return self.numbers()
        raise DataError(
            f"{self.where} cannot be labels; expected a ClassLabel, with its names, or floats. "
            "datasets' cast_column makes one of integers."
        )

    @cached_property
    def _values(self) -> list[Any]:
        values: list[Any] = self.saved.with_format("arrow")[:].column(self.name).to_pylist()
        if any(value is None for value in values):
            raise DataError(f"{self.where}: values are missing.")
        return values

    @cached_property
    def _numbers(self) -> NDArray[np.float32]:
        with np.errstate(over="ignore"):  # too large for float32 becomes inf, which TensorData refuses
            try:
                return np.array(self._values, dtype=np.float32)
            except (TypeError, ValueError):
                raise DataError(
                    f"{self.where}: expected rows of one shape, without missing values."
                ) from None

    def _image_bytes(self, cell: dict[str, Any]) -> bytes:
        """The cell's bytes. Paths and addresses in a cell are not followed: they lead elsewhere."""
        if cell.get("bytes") is None:
            raise DataError(f"{self.where}: images lie elsewhere; save the data set with their bytes in it.")
        return bytes(cell["bytes"])

    def _class_name(self, label: int) -> str:
        return self.classes[label] if 0 <= label < len(self.classes) else ""


def columns_of(path: Path, saved: Any, named: str) -> tuple[Column, Column]:
    """Inputs and labels: the columns that `named` INPUT,LABEL names, or the first with usual names."""
    there = list(saved.column_names)
    if named:
        names = [name.strip() for name in named.split(",")]
        if len(names) != 2:
            raise DataError(f"columns = {named!r}: expected INPUT,LABEL.")
    else:
        names = [next((one for one in usual if one in there), "") for usual in (_INPUTS, _LABELS)]
    if not all(name in there for name in names):
        raise DataError(f"{path}: expected columns = INPUT,LABEL, of {', '.join(there)}.")
    inputs, labels = (
        Column(saved, name, f"{path}: column {name}", _kind(saved.features[name])) for name in names
    )
    return inputs, labels


def _kind(feature: Any) -> Kind:
    import datasets

    if isinstance(feature, datasets.Image):
        return "image"
    if isinstance(feature, datasets.ClassLabel):
        return "class"
    depth = 0
    while isinstance(feature, datasets.List | datasets.LargeList):
        feature, depth = feature.feature, depth + 1
    if isinstance(feature, datasets.ClassLabel | datasets.Image) or not isinstance(
        getattr(feature, "dtype", None), str
    ):
        return "other"
    dtype, arrays = feature.dtype, not isinstance(feature, datasets.Value)
    if dtype in ("string", "large_string") and not depth:
        return "text"
    if dtype.startswith("float"):
        return "numbers" if depth or arrays else "number"
    return "tokens" if dtype.startswith(("int", "uint")) and depth == 1 and not arrays else "other"
