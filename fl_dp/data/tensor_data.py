"""A data set as two tensors: every source returns one, every trainer reads one."""

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor

from fl_dp.data.files_read import FilesRead
from fl_dp.data.fixed_features import FixedFeatures
from fl_dp.data.subgroups import Subgroups, check_subgroups
from fl_dp.errors import DataError
from fl_dp.form import Form, Targets

Split = Literal["train", "test"]

NO_TOKEN = -100  # a target that is ignored, as in PyTorch's losses
_OF_EACH = ("groups", "raw", "sites")  # fields with one for each record, or none
_CHANNELS = (1, 3, 4)  # of an image: grey, colour, colour with transparency
COLUMNS_OF_INTEGERS = (
    "Convert one-hot labels to classes with y.argmax(1), and several labels of 0 and 1 for each record "
    '(loss = "bce") to float32: y.float(), or y.astype("float32") for an array.'
)
_OF_DOUBLES = ' Write x.float(), or x.astype("float32") for an array.'
_RECORDS_PER_CHUNK = 4096  # copied at a time for hashing: bounds the memory


@dataclass(frozen=True, slots=True, eq=False)  # not ==: comparing tensors gives no single bool
class TensorData:
    """Labelled examples, held in memory as they were read.

    Args:
        x: uint8 images (n, C, H, W), float32 numbers (n, ...), or int64 tokens (n, T) below `vocabulary`;
            n >= 1.
        y: int64 labels (n,), each in [0, len(classes)); float32 numbers (n,) or (n, k), of which (n, 1)
            becomes (n,); or int64 tokens (n, T), each in [0, len(classes)) or -100, which is ignored. Labels
            may be (n, 1), integers of another width, or bools if there are two classes.
        classes: One name per label, per column of numbers, or per possible next token.
        vocabulary: The number of tokens, if x are tokens.
        groups: One name per record, by which it may be assigned to a client; empty if there are none.
        raw: A digest of every record before it was encoded; empty if x and y are the records themselves. A
            ledger identifies a record by it, however the record is encoded.
        grouped_by: The column that the groups are from; empty if it has no name.
        sites: The site of each record, by which it may also be assigned to a client.
        sites_by: The column that the sites are from; empty if it has no name.
        features: Replaces x as the model's input, computed on first use; None: x itself. A ledger identifies
            a record by x in either case.
        subgroups: Of test records, for separate results; training never reads them.
        read: The files that the records are from, also for a part of them; None: unknown.

    Raises:
        DataError: Anything else, and numbers that are not finite.

    Example:
        >>> import fl_dp, torch
        >>> data = fl_dp.TensorData(torch.randn(6, 4), torch.randint(2, (6,)), ("no", "yes"))
        >>> print(len(data), data.form)
        6 numbers of shape (4,) to 2 classes
    """

    x: Tensor
    y: Tensor
    classes: tuple[str, ...]
    vocabulary: int = 0
    groups: tuple[str, ...] = ()
    raw: tuple[bytes, ...] = ()
    grouped_by: str = ""
    sites: tuple[str, ...] = ()
    sites_by: str = ""
    features: FixedFeatures | None = None
    subgroups: tuple[Subgroups, ...] = ()
    read: FilesRead | None = None
    _computed: list[Tensor] = field(default_factory=list, init=False, repr=False)  # the features, once

    def __post_init__(self) -> None:
        check_inputs(self.x, self.vocabulary)
        if not isinstance(self.classes, Sequence):
            raise DataError(
                f"classes = {self.classes!r}: expected a name for each, such as tuple(map(str, range(10)))."
            )
        object.__setattr__(self, "y", _plain_targets(self.x, self.y, self.classes))
        check_targets(self.x, self.y, self.classes)
        if self.features is not None:
            self.features.shape(tuple(self.x.shape[1:]))
        # Spaces around a name do not make another person, neither here nor in a ledger.
        object.__setattr__(self, "groups", tuple(map(str.strip, self.groups)))
        for name in _OF_EACH:
            if len(getattr(self, name)) not in (0, len(self.y)):
                raise DataError(
                    f"Expected {name} of {len(self.y)} records, or none, not of {len(getattr(self, name))}."
                )
        check_subgroups(self.subgroups, len(self.y))

    @classmethod
    def of(cls, dataset: Any, classes: Sequence[str] = ()) -> Self:
        """The records of a torch data set, each an input, a tensor, and a target, a tensor or a number.

        classes: a name for each label, if labels are integers; their number is public, and never counted in
        labels. Each record is read once, so random transforms are applied once. DataError for anything else.
        """
        records = [dataset[i] for i in range(len(dataset))]
        if not records or not all(isinstance(one, tuple | list) and len(one) == 2 for one in records):
            raise DataError("Expected a data set of at least one record, each an input and a target.")
        inputs, targets = zip(*records, strict=True)
        if not all(isinstance(one, Tensor) and one.shape == inputs[0].shape for one in inputs):
            raise DataError(
                "Expected inputs that are tensors of one shape; the data set's transform can make them."
            )
        x, y = torch.stack(inputs), torch.stack([torch.as_tensor(one) for one in targets])
        if not y.is_floating_point() and not classes:
            raise DataError(
                'Expected classes, a name for each label, such as ("no", "yes"): labels are integers.'
            )
        x = x if x.dtype == torch.uint8 else x.float()
        return cls(x, y.float() if y.is_floating_point() else y.long(), tuple(classes))

    @property
    def form(self) -> Form:
        """What is public about the records."""
        shape, wide = tuple(self.x.shape[1:]), self.y.ndim == 2
        targets: Targets = "numbers" if self.y.is_floating_point() else "tokens" if wide else "class"
        outputs = (self.y.shape[1] if wide else 1) if targets == "numbers" else len(self.classes)
        if self.features:
            shape = self.features.shape(shape)
        return Form(shape, outputs, targets, self.vocabulary)

    @property
    def inputs(self) -> Tensor:
        """The model's input before pixels are scaled: x, or the float32 features of x."""
        if self.features is None:
            return self.x
        if not self._computed:
            self._computed.append(self.features.of(self.x))
        return self._computed[0]

    def with_features(self, features: FixedFeatures | None, computed: Tensor | None = None) -> Self:
        """The same records with `features`; DataError if they cannot be computed. computed: if known."""
        made = dataclasses.replace(self, features=features)
        if computed is not None:
            made._computed.append(computed)
        return made

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        """Shows no record: notebooks and logs print it."""
        return f"TensorData({len(self)} records, {self.form})"

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs (b, *input_shape), float32 or tokens, and targets of the examples at int64 `indices` (b,).

        Pixels are scaled to [-1, 1] by constants: statistics of the data would leak about its records.
        """
        return batch_inputs(self.inputs[indices]), self.y[indices]

    def subset(self, indices: Tensor) -> Self:
        """The examples at int64 `indices`, copied; classes stay the same."""
        chosen = indices.tolist()
        each: dict[str, Any] = {
            name: tuple(of[i] for i in chosen) for name in _OF_EACH if (of := getattr(self, name))
        }
        subgroups = tuple(one.at(indices) for one in self.subgroups)
        part = dataclasses.replace(self, x=self.x[indices], y=self.y[indices], subgroups=subgroups, **each)
        part._computed.extend(features[indices] for features in self._computed)
        return part

    def fingerprint(self) -> str:
        """SHA-256 over dtype, shape and the set of records, in hex; independent of the records' order."""
        if self.raw:
            return hashlib.sha256(b"raw records\n" + b"".join(self.record_digests())).hexdigest()
        return fingerprint_of(self.x, self.y, self.record_digests())

    def record_digests(self) -> list[bytes]:
        """SHA-256 of every record, label and contents, sorted, so independent of the records' order."""
        return sorted(self.digests())

    def digests(self) -> Sequence[bytes]:
        """SHA-256 of every record, in order."""
        return self.raw or digests_of(self.x, self.y)


def digests_of(x: Tensor, y: Tensor) -> list[bytes]:
    """SHA-256 of every record of the two tensors, in order."""
    chunks = zip(*(torch.split(tensor, _RECORDS_PER_CHUNK) for tensor in (y, x)), strict=True)
    return [hashlib.sha256(record).digest() for y, x in chunks for record in _rows(y, x)]


def fingerprint_of(x: Tensor, y: Tensor, digests: Sequence[bytes]) -> str:
    """See `TensorData.fingerprint`. digests: of all records, sorted."""
    head = f"{x.dtype} {tuple(x.shape)} {y.dtype}\n"
    return hashlib.sha256(head.encode() + b"".join(digests)).hexdigest()


def batch_inputs(x: Tensor) -> Tensor:
    """Inputs as a model takes them, float32 or tokens: pixels are scaled to [-1, 1]."""
    return x.float().div_(127.5).sub_(1.0) if x.dtype == torch.uint8 else x


def check_inputs(x: Tensor, vocabulary: int) -> None:
    """Raise DataError unless they are valid as `TensorData.x`."""
    _check_channels_first(tuple(x.shape))
    _check_tensor("x", x)
    images, tokens = x.dtype == torch.uint8 and x.ndim == 4, x.dtype == torch.int64 and x.ndim == 2
    if not (images or tokens or (x.dtype == torch.float32 and x.ndim >= 2)):
        raise DataError(
            f"Expected uint8 images (n, C, H, W), float32 features (n, ...) or int64 tokens (n, T), "
            f"not {x.dtype} of shape {tuple(x.shape)}.{_OF_DOUBLES if x.dtype == torch.float64 else ''}"
        )
    if x.numel() == 0:
        raise DataError(f"Expected at least one example, not shape {tuple(x.shape)}.")
    if tokens != (vocabulary > 0):
        raise DataError(
            f"vocabulary = {vocabulary}: expected the number of tokens if x holds tokens, else 0."
        )
    if tokens and not 0 <= int(x.min()) <= int(x.max()) < vocabulary:
        raise DataError(f"Expected every token in 0 to {vocabulary - 1}: some are not.")
    if x.is_floating_point() and not x.isfinite().all():
        raise DataError("Expected finite features: some are NaN or infinite.")


def _check_channels_first(shape: tuple[int, ...]) -> None:
    """Raise DataError for images (n, H, W, C), which would be trained as images of H channels."""
    if len(shape) == 4 and min(shape[1:3]) > max(_CHANNELS) and shape[3] in _CHANNELS:
        raise DataError(
            f"Inputs of shape {shape} look like images (n, H, W, C): expected (n, C, H, W), channels first. "
            "Write x.transpose(0, 3, 1, 2) for an array, x.permute(0, 3, 1, 2) for a tensor. If they are "
            "not images, x.reshape(*x.shape[:2], -1) removes that axis."
        )


def _check_tensor(name: str, value: object) -> None:
    if not isinstance(value, Tensor):
        raise DataError(
            f"{name}: expected a tensor, not {type(value).__name__}; write torch.as_tensor({name})."
        )


def _plain_targets(x: Tensor, y: Tensor, classes: tuple[str, ...]) -> Tensor:
    """Targets (n, 1) as (n,); integers of any width, and bools of two classes, as int64."""
    _check_tensor("y", y)
    if y.ndim == 2 and y.shape[1] == 1 and not (x.dtype == torch.int64 and y.shape == x.shape):
        y = y[:, 0]
    other = y.is_floating_point() or y.is_complex() or (y.dtype == torch.bool and len(classes) != 2)
    return y if other else y.long()


def check_targets(x: Tensor, y: Tensor, classes: tuple[str, ...]) -> None:
    """Raise DataError unless they are valid as `TensorData.y`."""
    numbers = y.dtype == torch.float32 and y.ndim in (1, 2)
    tokens = y.dtype == torch.int64 and y.ndim == 2 and x.dtype == torch.int64 and y.shape == x.shape
    if not (numbers or tokens or (y.dtype == torch.int64 and y.ndim == 1)) or len(y) != len(x):
        raise DataError(
            f"Expected one int64 label for each of {len(x)} examples, or float32 numbers (n,) or (n, k), or "
            f"next tokens (n, T), not {y.dtype} of shape {tuple(y.shape)}."
            + (f" {COLUMNS_OF_INTEGERS}" if y.ndim == 2 and not y.is_floating_point() else "")
        )
    if numbers:
        columns = y.shape[1] if y.ndim == 2 else 1
        if columns == 0 or len(classes) not in (0, columns):
            raise DataError(
                f"Expected {columns} names of columns, or none, not {len(classes)}: the labels are floats, "
                "which are numbers to predict. For classes use integers: y.long(), or y.astype(int) for an "
                "array; leave out records without a label."
            )
        if not y.isfinite().all():
            raise DataError("Expected finite targets: some are NaN or infinite.")
        return
    counted = y[y != NO_TOKEN] if tokens else y
    if counted.numel() and not 0 <= int(counted.min()) <= int(counted.max()) < len(classes):
        raise DataError(f"Expected every label in 0 to {len(classes) - 1}, counted from 0: some are not.")


def _rows(y: Tensor, x: Tensor) -> Iterator[memoryview]:
    """The bytes of each record: its label, then its contents."""
    columns = [tensor.reshape(len(tensor), -1).contiguous().numpy().view(np.uint8) for tensor in (y, x)]
    rows = np.concatenate(columns, axis=1)  # (records, bytes of one)
    return (row.data for row in rows)
