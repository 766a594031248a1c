"""Texts with an author each: passages for predicting the next token, and whose they are.

With `unit = "person:author"` an author is what is protected, with all passages.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from fl_dp.data.files_read import raw_lines
from fl_dp.data.source import Location, Reading, Source
from fl_dp.data.sources.text import SUFFIXES, file_name, lines_of, passages, read_text, text_files
from fl_dp.data.stable_split import split_of
from fl_dp.data.tables.files import read_csv
from fl_dp.data.tensor_data import NO_TOKEN, Split, TensorData
from fl_dp.data.tokens import encoder_of
from fl_dp.data.traces.texts import of_texts
from fl_dp.errors import DataError

COLUMNS = "author,text"


def load_authors(path: Path, reading: Reading, split: Split) -> TensorData:
    """One split of the texts at `path`, as int64 tokens (n, T), T the setting `tokens`, with the next ones.

    | PATH                        | a text                                        |
    |-----------------------------|-----------------------------------------------|
    | a folder of <author>.txt    | a file; may be compressed (.gz)               |
    | a file of JSON lines        | a line: {"author": "...", "text": "..."}      |
    | a CSV file with a header    | a row, with the columns author and text       |

    `columns` = AUTHOR,TEXT names other columns. A record is a passage of at most T + 1 tokens of one text.
    The targets of a shorter one do not count where it has ended. A hash of its content decides its split.
    Anything else raises DataError naming the file, and no text.
    """
    if reading.tokens < 1:
        raise DataError(f"{path}: tokens = {reading.tokens}: expected the length of a passage, in tokens.")
    column = _columns(reading)[0]
    encoder, length = encoder_of(reading.tokenizer), reading.tokens
    found = [
        (author, one)
        for author, text in _texts(path, reading)
        for one in passages(text, encoder, length, whole=False)
        if split_of(one.raw) == split
    ]
    if not found:
        raise DataError(f"{path}: no {split} passages of two tokens or more.")
    x = np.full((len(found), length), encoder.padding or 0, dtype=np.int64)
    y = np.full((len(found), length), NO_TOKEN, dtype=np.int64)
    for row, (_, one) in enumerate(found):
        x[row, : len(one.tokens) - 1], y[row, : len(one.tokens) - 1] = one.tokens[:-1], one.tokens[1:]
    return TensorData(
        torch.from_numpy(x),
        torch.from_numpy(y),
        tuple(map(str, range(encoder.size))),
        encoder.size,
        groups=tuple(author for author, _ in found),
        grouped_by=column,
        raw=tuple(one.raw for _, one in found),
        traces=of_texts([one.text for _, one in found]),
    )


def _columns(reading: Reading) -> tuple[str, str]:
    names = (reading.columns or COLUMNS).split(",")
    if len(names) != len(COLUMNS.split(",")) or not all(names):
        raise DataError(f"columns = {reading.columns!r}: expected AUTHOR,TEXT.")
    return names[0], names[1]


def _texts(path: Path, reading: Reading) -> Iterator[tuple[str, str]]:
    """Authors and their texts."""
    if path.is_dir():
        for file in text_files(path):
            yield file_name(file), read_text(file, reading.encoding)
    elif path.suffix == ".csv":
        yield from _of_table(path, reading)
    else:
        author, text = _columns(reading)
        for number, line in enumerate(lines_of(read_text(path, reading.encoding)), 1):
            yield _named(path, number, line, author), _named(path, number, line, text)


def _named(path: Path, number: int, line: str, name: str) -> str:
    """The text of that name in a line of JSON."""
    try:
        found = json.loads(line)[name]
    except (ValueError, KeyError, TypeError, RecursionError):
        found = None
    if not isinstance(found, str) or not found.strip():
        raise DataError(
            f"{path}: line {number} (blank ones not counted): expected an object with a text {name!r}."
        )
    return found


def _of_table(path: Path, reading: Reading) -> Iterator[tuple[str, str]]:
    table = read_csv(path, encoding=reading.encoding)
    missing = [name for name in _columns(reading) if name not in table.names]
    if missing:
        raise DataError(f"{path}: its first line does not name the column {missing[0]!r}; see columns.")
    authors, texts = (table.columns[table.names.index(name)].tolist() for name in _columns(reading))
    if "" in authors:
        raise DataError(f"{path}: row {authors.index('') + 1} has no author.")
    yield from zip(authors, texts, strict=True)


def _load(location: Location, split: Split) -> TensorData:
    return load_authors(location.path, location.reading, split)


SOURCE = Source(_load, argument="PATH", is_path=True, endings=SUFFIXES, lines=raw_lines)
