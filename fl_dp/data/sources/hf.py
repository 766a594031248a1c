"""A data set that the Hugging Face library `datasets` has saved to a folder. Nothing is downloaded."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fl_dp.data.images import stack
from fl_dp.data.saved_columns import Column, columns_of
from fl_dp.data.source import Location, Reading, Source
from fl_dp.data.stable_split import record_digest, split_of
from fl_dp.data.tensor_data import Split, TensorData
from fl_dp.data.tokens import encoder_of
from fl_dp.data.traces.tensors import of_pictures
from fl_dp.data.traces.texts import of_texts
from fl_dp.data.traces.traces import Traces
from fl_dp.errors import DataError


def load_saved(path: Path, reading: Reading, split: Split) -> TensorData:
    """One split of the data set at `path`: its `train` or `test`; without splits, by each record.

    | column of inputs       | what becomes of it                                                     |
    |------------------------|------------------------------------------------------------------------|
    | Image, its bytes saved | uint8 (n, C, H, W), as a folder's images, with image-size, image-mode  |
    | lists of floats        | float32 (n, ...), all of one shape                                     |
    | string                 | tokens (n, T), by `tokenizer`, T the setting `tokens`                  |
    | lists of integers      | tokens below the size of `tokenizer`, truncated or padded to T         |

    The label column is a ClassLabel, floats, or lists of floats. `columns` = INPUT,LABEL names the two
    columns; otherwise they are the first with usual names. Anything else raises DataError naming path and
    column, and no value.
    """
    saved, by_record = _open(path, split)
    inputs, labels = columns_of(path, saved, reading.columns)
    if by_record:
        chosen = [row for row, digest in enumerate(_digests(inputs, labels)) if split_of(digest) == split]
        if not chosen:
            raise DataError(f"{path}: no {split} records.")
        inputs, labels = columns_of(path, saved.select(chosen), reading.columns)
    x, vocabulary = _inputs(inputs, reading)
    try:
        y = labels.targets()
        raw = tuple(_digests(inputs, labels))
        return TensorData(x, y, labels.classes, vocabulary, raw=raw, traces=_traces(inputs, x))
    except DataError as error:
        raise DataError(f"{path}, split {split}: {error}") from None


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


def _traces(inputs: Column, x: Tensor) -> Traces | None:
    """Traces of texts and pictures, whatever their labels; numbers and tokens are x itself."""
    if inputs.kind == "text":
        return of_texts(list(inputs.contents()))
    if inputs.kind == "image":
        return of_pictures(inputs.contents(), x)
    return None


def _digests(inputs: Column, labels: Column) -> list[bytes]:
    pairs = zip(labels.contents(), inputs.contents(), strict=True)
    return [record_digest(label, content) for label, content in pairs]


def _load(location: Location, split: Split) -> TensorData:
    return load_saved(location.path, location.reading, split)


SOURCE = Source(_load, argument="PATH", is_path=True)
