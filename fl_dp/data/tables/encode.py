"""Encodes a table by its schema as tensors, each record independent of all others."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from fl_dp.data.stable_split import keyed_share
from fl_dp.data.subgroups import Subgroups
from fl_dp.data.tables.cells import Cells, plain
from fl_dp.data.tables.columns import Column, Group, Label, Mask, Site, SplitColumn, Target
from fl_dp.data.tables.schema import FILE, NONE, Schema
from fl_dp.data.tensor_data import Split, TensorData
from fl_dp.errors import DataError

# Public and fixed: with a key of their own, users could try splits until one looks good.
_KEY = b"fl_dp train/test split"
_TEST_SHARE = 0.2
_SHOWN = 3  # records with missing cells that an error names
_OF_INPUTS, _OF_OTHERS = '"drop" or "encode"', '"drop"'  # which may be said of them


@dataclass(frozen=True, slots=True)
class Table:
    """The cells of a file. columns: (n,) each, in the file's order. named: whether the file names them."""

    columns: tuple[Cells, ...]
    names: tuple[str, ...]
    named: bool = True

    def __len__(self) -> int:
        return len(self.columns[0])


def encode(table: Table, schema: Schema, split: Split | None) -> TensorData:
    """One split of the table; None: all of its records. DataError if the table is not as declared."""
    cells = _by_schema(table, schema)
    # The file's own names; without a header, positions.
    names = table.names if table.named else tuple(f"#{i}" for i in range(len(table.names)))
    # Without group and site columns: new names there must not hide what the same records have spent.
    columns = zip(names, cells, table.columns, strict=True)
    of_whom = [column.name for column in schema.columns if isinstance(column, Group | Site)]
    raw = record_digests({name: column for name, own, column in columns if own not in of_whom})
    kept = _kept(cells, schema)
    if split is not None and schema.split != FILE:
        kept &= _is_test(cells, schema, raw, kept) == (split == "test")
    if not kept.any():
        raise DataError(f"there are no {split or 'usable'} records.")
    rows = {name: column[kept] for name, column in cells.items()}
    group, site = schema.one(Group), schema.one(Site)
    return TensorData(
        _inputs(rows, schema),
        _targets(rows, schema),
        schema.classes,
        groups=_names(rows, group),
        raw=tuple(digest for digest, keep in zip(raw, kept, strict=True) if keep),
        grouped_by=group.name if group else "",
        sites=_names(rows, site),
        sites_by=site.name if site else "",
        subgroups=() if split == "train" else _subgroups(rows, schema),
    )


def encode_inputs(table: Table, schema: Schema) -> Tensor:
    """float32 (n, d) of all records, in the table's order, labelled or not; other columns are ignored.

    DataError if an input column does not exist, or has missing cells without declaring how they are encoded.
    """
    if not table.named:
        cells = _by_schema(table, schema)
    else:
        cells = dict(zip(table.names, table.columns, strict=True))
    for column in schema.input_columns:
        if column.name not in cells:
            raise DataError(f"no column is named {column.name!r}, which is an input.")
        if column.if_missing != "encode" and (missing := column.is_missing(cells[column.name])).any():
            raise DataError(
                f"column {column.name!r}: has missing cells, in {_records(missing)}, and no "
                'if-missing = "encode".'
            )
    return _inputs(cells, schema)


def _names(rows: Mapping[str, Cells], column: Column | None) -> tuple[str, ...]:
    """The column's cell in each record; none without such a column."""
    return tuple(plain(cell) for cell in rows[column.name]) if column else ()


def _subgroups(rows: Mapping[str, Cells], schema: Schema) -> tuple[Subgroups, ...]:
    return tuple(
        column.division.of(column.name, rows[column.name], column.decimal)
        for column in schema.columns
        if column.division
    )


def _by_schema(table: Table, schema: Schema) -> dict[str, Cells]:
    """The columns by their names in the schema.

    DataError unless the file has exactly these. It never quotes the first line, which may be a record.
    """
    if not table.named:
        if len(table.columns) != len(schema.columns):
            raise DataError(
                f"the file has {len(table.columns)} columns and no header, the schema {len(schema.columns)}."
            )
        return dict(zip(schema.names, table.columns, strict=True))
    if missing := [name for name in schema.names if name not in table.names]:
        raise DataError(
            f"there is no column {missing[0]!r}, which the schema declares: the file has "
            f"{len(schema.names) - len(missing)} of the schema's {len(schema.names)} columns. The schema may "
            "be for another table, or the separator may be wrong. If the file has no line of names, set "
            "header = false in the schema."
            + ' If its first line, which begins with "#", is a comment, delete it.'
            * table.names[0].startswith("#")
        )
    if more := [str(i) for i, name in enumerate(table.names, 1) if name not in schema.names]:
        raise DataError(
            f"the schema does not say what these columns of the file are, counted from 1: {', '.join(more)}. "
            'Declare each; kind = "ignore" leaves one out, "group" says whose record it is, "site" where.'
        )
    if len(set(table.names)) != len(table.names):
        raise DataError("the file's first line names a column twice.")
    return dict(zip(table.names, table.columns, strict=True))


def _kept(cells: Mapping[str, Cells], schema: Schema) -> Mask:
    """(n,) which records are not dropped; DataError if a missing cell is refused."""
    kept = np.ones(len(cells[schema.names[0]]), dtype=bool)
    for column in schema.declared:
        if column.if_missing == "drop":
            kept &= ~column.is_missing(cells[column.name])
    blank = [
        f"column {column.name!r} ({_records(missing)}): there are missing cells; the schema may say "
        f"if-missing = {_OF_INPUTS if column in schema.input_columns else _OF_OTHERS}"
        for column in schema.declared
        if column.if_missing == "refuse" and (missing := column.is_missing(cells[column.name]) & kept).any()
    ]
    if blank:
        raise DataError("; ".join(blank) + ".")
    return kept


def _records(marked: Mask) -> str:
    """ "record 2", "records 2, 5, 9 and 40 more": counted from 1 in the file's order, names not counted."""
    rows = [str(row + 1) for row in np.flatnonzero(marked).tolist()]
    more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
    return f"record{'s' * (len(rows) > 1)} {', '.join(rows[:_SHOWN])}{more}"


def _is_test(cells: Mapping[str, Cells], schema: Schema, raw: tuple[bytes, ...], kept: Mask) -> Mask:
    """(n,) which records are for testing: whole groups, unless a column says it."""
    if column := schema.one(SplitColumn):
        says = np.zeros(len(kept), dtype=bool)
        says[kept] = column.is_test(cells[column.name][kept])
        return says
    if schema.split == NONE:
        return np.zeros(len(raw), dtype=bool)
    group = schema.one(Group)
    return for_testing(record_digests({"group": cells[group.name]}) if group else raw)


def _inputs(rows: Mapping[str, Cells], schema: Schema) -> Tensor:
    """float32 (n, d)"""
    encoded = [
        column.encode(rows[column.name], column.is_missing(rows[column.name]))
        for column in schema.input_columns
    ]
    return torch.from_numpy(np.concatenate(encoded, axis=1))


def _targets(rows: Mapping[str, Cells], schema: Schema) -> Tensor:
    """int64 (n,) class indices, or float32 (n, k): scaled targets, or 0 and 1 for k labels."""
    labels = [column.codes(rows[column.name]) for column in schema.of_kind(Label)]
    if len(labels) == 1:
        return torch.from_numpy(labels[0])
    if labels:
        return torch.from_numpy(np.stack(labels, axis=1).astype(np.float32))
    known = np.zeros(len(rows[schema.names[0]]), dtype=bool)
    targets = [column.scaled(rows[column.name], known) for column in schema.of_kind(Target)]
    return torch.from_numpy(np.stack(targets, axis=1))


def record_digests(columns: Mapping[str, Cells]) -> tuple[bytes, ...]:
    """SHA-256 of every record as it is in the file: of its cells, with their columns' names, sorted by name.

    Numbers count by value, so that a file saved by another program has the same records.
    """
    names = sorted(columns)
    parts = [_framed(name, columns[name]) for name in names]
    return tuple(hashlib.sha256(b"".join(record)).digest() for record in zip(*parts, strict=True))


def _framed(name: str, cells: Cells) -> list[bytes]:
    """Name and cell, each with its length, so that different records never concatenate to the same bytes."""
    places, distinct = pd.factorize(cells)
    texts = [_with_length(name) + _with_length(plain(text)) for text in distinct]
    return [texts[place] for place in places]


def _with_length(text: str) -> bytes:
    content = text.encode("utf-8", "surrogatepass")
    return len(content).to_bytes(8, "big") + content


def for_testing(records: tuple[bytes, ...]) -> Mask:
    """(n,) which records are for testing: a fifth, each decided by itself."""
    return keyed_share(records, _KEY, _TEST_SHARE)
