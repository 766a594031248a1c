"""A data set as two tensors: every source returns one, every trainer reads one."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import torch
from torch import Tensor

from fl_dp.errors import DataError

Split = Literal["train", "test"]

_RECORDS_PER_CHUNK = 4096  # copied for hashing at a time: bounds the memory


@dataclass(
    frozen=True, slots=True, eq=False
)  # eq: comparing tensors gives no single bool, so identity counts
class TensorData:
    """Labelled examples, held in memory as they were read.

    x: uint8 images (n, C, H, W), or float32 features (n, d); n >= 1
    y: int64 labels (n,), each in [0, len(classes))
    classes: one name per label

    Anything else, and features that are not finite, raise DataError.
    """

    x: Tensor
    y: Tensor
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        if (self.x.dtype, self.x.ndim) not in ((torch.uint8, 4), (torch.float32, 2)):
            raise DataError(
                f"Expected uint8 images (n, C, H, W) or float32 features (n, d), "
                f"not {self.x.dtype} of shape {tuple(self.x.shape)}."
            )
        if self.y.dtype != torch.int64 or self.y.shape != self.x.shape[:1]:
            raise DataError(
                f"Expected one int64 label for each of {len(self.x)} examples, "
                f"not {self.y.dtype} of shape {tuple(self.y.shape)}."
            )
        if self.x.numel() == 0:
            raise DataError(f"Expected at least one example, not shape {tuple(self.x.shape)}.")
        if self.y.min() < 0 or self.y.max() >= self.num_classes:
            raise DataError(f"Expected every label in 0 to {self.num_classes - 1}: there are others.")
        if self.x.is_floating_point() and not self.x.isfinite().all():
            raise DataError("Expected finite features: there are NaN or infinite ones.")

    def __len__(self) -> int:
        return len(self.y)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one example: (C, H, W) or (d,)."""
        return tuple(self.x.shape[1:])

    @property
    def num_classes(self) -> int:
        return len(self.classes)

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Float32 inputs (b, *input_shape) and int64 labels (b,) of the examples at int64 `indices` (b,).

        Pixels are scaled to [-1, 1] by constants: statistics of the data would leak about its records.
        """
        inputs = self.x[indices]
        if inputs.dtype == torch.uint8:
            inputs = inputs.float().div_(127.5).sub_(1.0)
        return inputs, self.y[indices]

    def subset(self, indices: Tensor) -> Self:
        """The examples at int64 `indices`, copied; classes stay the same."""
        return type(self)(self.x[indices], self.y[indices], self.classes)

    def fingerprint(self) -> str:
        """SHA-256 over dtype, shape and the set of records, in hex; the records' order does not change it."""
        digest = hashlib.sha256(f"{self.x.dtype} {tuple(self.x.shape)} {self.y.dtype}\n".encode())
        digest.update(b"".join(self.record_digests()))
        return digest.hexdigest()

    def record_digests(self) -> list[bytes]:
        """SHA-256 of every record, label and contents, sorted: the records' order does not change them."""
        chunks = zip(*(torch.split(tensor, _RECORDS_PER_CHUNK) for tensor in (self.y, self.x)), strict=True)
        return sorted(hashlib.sha256(record).digest() for y, x in chunks for record in _rows(y, x))


def _rows(y: Tensor, x: Tensor) -> Iterator[memoryview]:
    """The bytes of each record: its label, then its contents."""
    columns = [tensor.reshape(len(tensor), -1).contiguous().numpy().view(np.uint8) for tensor in (y, x)]
    rows = np.concatenate(columns, axis=1)  # (records, bytes of one)
    return (row.data for row in rows)
