"""Traces of records that are known only as tensors: numbers, pixels, tokens."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fl_dp.data.traces.traces import DIGITS, Hashes, Rows, Texts, Traces, hash_of, of_contents

# Columns of an input to examine, those that vary most: as many as a table of it would have.
_MOST_COLUMNS, _MOST_CELLS, _FEWEST = 300, 1_500_000, 24
_SAMPLE = 512  # records to judge that by
_TOKENS = 16  # in a piece


def of_tensors(x: Tensor, y: Tensor, groups: Sequence[str], classes: Sequence[str] = ()) -> Traces:
    """x (n, ...), y (n, ...), a name per record, or none, and the classes' names: what `TensorData` holds.

    The whole input is one piece, so that the label may differ. Numbers are columns, and so are names.
    """
    rows = x.reshape(len(x), -1).contiguous().numpy()
    if x.is_floating_point():
        whole = of_contents([(row.tobytes(),) for row in rows])
        from fl_dp.data.traces.columns import of_columns  # late: needs pandas, which an actor does not

        columns = {f"x{place}": rows[:, place] for place in _most_varied(rows, whole.pieces).tolist()}
        table = of_columns(len(x), _texts(columns, y, groups, classes))
        return replace(whole, cells=table.cells, records_of=table.records_of)
    return of_contents([tuple(_pieces(row)) for row in rows])


def of_pictures(files: Iterable[bytes], pixels: Tensor) -> Traces:
    """By each picture's file, and by its pixels (n, ...): it may have another label, or be saved again."""
    return of_contents([(file, row.numpy().tobytes()) for file, row in zip(files, pixels, strict=True)])


def _most_varied(rows: NDArray[np.float32], hashes: Hashes) -> Rows:
    """The columns with the most distinct values; of equal ones the first. hashes: of the records."""
    values = np.sort(rows[np.argsort(hashes)[:_SAMPLE]], axis=0)
    different = (values[1:] != values[:-1]).sum(axis=0)
    number = max(_FEWEST, min(_MOST_COLUMNS, _MOST_CELLS // len(rows)))
    return np.sort(np.argsort(-different, kind="stable")[:number])


def _texts(
    columns: Mapping[str, NDArray[np.float32]], y: Tensor, groups: Sequence[str], classes: Sequence[str]
) -> Iterator[tuple[str, Texts]]:
    if classes and y.dim() == 1 and not y.is_floating_point():
        yield "y0", np.array(classes, dtype=object)[y.numpy()]  # the names that a table of them would hold
        targets = {}
    else:
        numbers = y.reshape(len(y), -1).numpy()[:, :_MOST_COLUMNS]
        targets = {f"y{place}": column for place, column in enumerate(numbers.T)}
    for name, values in {**columns, **targets}.items():
        yield name, np.array([str(value) for value in _rounded(values).tolist()], dtype=object)
    if groups:
        yield "groups", np.array(groups, dtype=object)


def _rounded(values: NDArray[Any]) -> NDArray[np.float64]:
    """Rounded as by `value_of`, so that a long column has few distinct texts."""
    exact = values.astype(np.float64)
    with np.errstate(divide="ignore"):
        digits = DIGITS - 1 - np.floor(np.log10(np.abs(exact)))
    scale = 10.0 ** np.where(np.isfinite(digits), digits, 0)
    return np.where(exact == np.floor(exact), exact, np.round(exact * scale) / scale)


def _pieces(row: NDArray[np.generic]) -> Iterator[bytes]:
    """All pixels together; for tokens also pieces that begin where a hash of some says so."""
    yield row.tobytes()
    if row.dtype != np.int64 or len(row) <= _TOKENS:
        return
    for start in range(len(row) - _TOKENS + 1):
        piece = row[start : start + _TOKENS].tobytes()
        if int(hash_of(piece)) % _TOKENS == 0:
            yield piece
