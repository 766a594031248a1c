"""A data set that the Hugging Face library `datasets` has saved to a folder. Nothing is downloaded."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fl_dp.data.images import stack
from fl_dp.data.source import Reading, Source
from fl_dp.data.stable_split import record_digest, split_of
from fl_dp.data.tensor_data import Split, TensorData
from fl_dp.data.tokens import encoder_of
from fl_dp.errors import DataError, located

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
            f"{self.where} cannot be labels; expected a ClassLabel, with its names, or floats. datasets' "
            "cast_column makes one from integers."
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
            raise DataError(
                f"{self.where}: the images are stored elsewhere; save the data set with their bytes in it."
            )
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
    import datasets  # late: takes a second

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


def load_saved(path: Path, reading: Reading, split: Split) -> TensorData:
    """One split of the data set at `path`: its `train` or `test`; without splits, by each record.

    | column of inputs       | what becomes of it                                                     |
    |------------------------|------------------------------------------------------------------------|
    | Image, its bytes saved | uint8 (n, C, H, W), as a folder's images, with image-size, image-mode  |
    | lists of floats        | float32 (n, ...), all of one shape                                     |
    | string                 | tokens (n, T), by `tokenizer`, T the setting `tokens`                  |
    | lists of integers      | tokens below the size of `tokenizer`, truncated or padded to T         |

    The label column is a ClassLabel, floats, or lists of floats. `columns` = INPUT,LABEL names the two
    columns; otherwise they are the first with usual names. DataError for anything else, which names path and
    column, and quotes no value.
    """
    saved, by_record = _open(path, split)
    inputs, labels = columns_of(path, saved, reading.columns)
    if by_record:
        chosen = [row for row, digest in enumerate(_digests(inputs, labels)) if split_of(digest) == split]
        if not chosen:
            raise DataError(f"{path}: no {split} records.")
        inputs, labels = columns_of(path, saved.select(chosen), reading.columns)
    x, vocabulary = _inputs(inputs, reading)
    with located(f"{path}, split {split}"):
        y = labels.targets()
        raw = tuple(_digests(inputs, labels))
        return TensorData(x, y, labels.classes, vocabulary, raw=raw)


def _open(path: Path, split: Split) -> tuple[Any, bool]:
    """The split, and whether it is all records of both splits."""
    if not path.is_dir():
        raise DataError(f"{path}: no such folder; expected one that datasets' save_to_disk has written.")
    import datasets  # late: takes a second

    try:
        found = datasets.load_from_disk(str(path.absolute()))
    except Exception as error:  # of json, pyarrow, fsspec, datasets
        raise DataError(f"{path}: not a data set that save_to_disk wrote ({type(error).__name__}).") from None
    if isinstance(found, datasets.Dataset):
        saved, by_record = found, True
    elif split in found:
        saved, by_record = found[split], False
    else:
        raise DataError(f"{path}: no split {split}; there are {', '.join(found) or 'none'}.")
    if not len(saved):
        raise DataError(f"{path}: no {split} records.")
    return saved, by_record


def _inputs(column: Column, reading: Reading) -> tuple[Tensor, int]:
    """Inputs, and the vocabulary size if they are tokens."""
    if column.kind == "image":
        names = (f"{column.where}, row {row}" for row in range(len(column)))
        return stack(zip(names, column.contents(), strict=True), len(column), reading), 0
    if column.kind == "numbers":
        return column.numbers(), 0
    if column.kind not in ("text", "tokens"):
        raise DataError(f"{column.where} cannot be an input; expected images, floats, texts or tokens.")
    if reading.tokens < 1:
        raise DataError(f"{column.where}: expected the setting tokens, the length of an example.")
    encoder = encoder_of(reading.tokenizer)
    if column.kind == "text":
        texts = [content.decode() for content in column.contents()]
        return torch.from_numpy(encoder.rows(texts, reading.tokens)), encoder.size
    rows = (np.frombuffer(content, np.int64) for content in column.contents())
    return torch.from_numpy(encoder.filled(rows, len(column), reading.tokens)), encoder.size


def _digests(inputs: Column, labels: Column) -> list[bytes]:
    pairs = zip(labels.contents(), inputs.contents(), strict=True)
    return [record_digest(label, content) for label, content in pairs]


SOURCE = Source(
    lambda location, split: load_saved(location.path, location.reading, split),
    argument="PATH",
    is_path=True,
    endings=(".arrow",),
)
