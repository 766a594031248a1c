"""Text files: one example per line, labelled by its file's name; or running text, for the next token."""

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from fl_dp.data.files_read import raw_lines
from fl_dp.data.source import Reading, Source
from fl_dp.data.stable_split import record_digest, split_of
from fl_dp.data.tensor_data import Split, TensorData
from fl_dp.data.tokens import Encoder, Tokens, encoder_of
from fl_dp.errors import DataError

SUFFIXES = (".txt", ".txt.gz")
WINDOW = 32  # bytes
_BASE, _MIX = np.uint64(0x100000001B3), np.uint64(0x9E3779B97F4A7C15)


def load_text(path: Path, reading: Reading, split: Split) -> TensorData:
    """One split of the texts at `path`, as int64 tokens (n, T), T the setting `tokens`.

    | PATH                                          | a record                 | its split                |
    |-----------------------------------------------|--------------------------|--------------------------|
    | a folder: train/<class>.txt, test/<class>.txt | a line; label: its file  | its folder               |
    | a folder: <class>.txt                         | the same                 | a hash of label and line |
    | a file, of running text                       | T tokens, and T next ones | a hash of what it holds |

    Classes are the sorted file names of train/ and test/ together. An empty file declares a class without
    examples. Files may be compressed (.gz). Blank lines are left out. DataError for anything else, which
    names the file and quotes no text.
    """
    if reading.tokens < 1:
        raise DataError(f"{path}: tokens = {reading.tokens}: expected the length of an example, in tokens.")
    if path.is_file():
        return _running(path, reading, split)
    if not path.is_dir():
        raise DataError(f"{path}: no such file or folder; expected texts.")
    return _labelled(path, reading, split)


def _labelled(path: Path, reading: Reading, split: Split) -> TensorData:
    tops = [path / name for name in ("train", "test") if (path / name).is_dir()]
    classes = sorted({file_name(file) for top in tops or [path] for file in text_files(top)})
    lines = [
        (label, line)
        for file in text_files(path / split if tops else path)
        for label in [classes.index(file_name(file))]
        for line in lines_of(read_text(file, reading.encoding))
        if tops or split_of(_digest(classes[label], line)) == split
    ]
    if not lines:
        raise DataError(f"{path}: no {split} texts; expected one file of lines per class: <class>.txt.")
    encoder = encoder_of(reading.tokenizer)
    return TensorData(
        torch.from_numpy(encoder.rows([line for _, line in lines], reading.tokens)),
        torch.tensor([label for label, _ in lines]),
        tuple(classes),
        encoder.size,
        raw=tuple(_digest(classes[label], line) for label, line in lines),
    )


def _running(path: Path, reading: Reading, split: Split) -> TensorData:
    encoder = encoder_of(reading.tokenizer)
    text = read_text(path, reading.encoding)
    every = list(passages(text, encoder, reading.tokens))
    raw = [one.raw for one in every]
    rows = np.array([row for row, own in enumerate(raw) if split_of(own) == split], dtype=np.int64)
    if not len(rows):
        raise DataError(
            f"{path}: too short for one {split} passage of tokens = {reading.tokens} and one more token."
        )
    tokens = torch.from_numpy(np.stack([every[row].tokens for row in rows]))
    return TensorData(
        tokens[:, :-1].contiguous(),
        tokens[:, 1:].contiguous(),
        tuple(map(str, range(encoder.size))),
        encoder.size,
        raw=tuple(raw[row] for row in rows),
    )


def text_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    found = (file for file in folder.iterdir() if file.name.endswith(SUFFIXES) and file.is_file())
    return sorted(file for file in found if not file.name.startswith("."))


def file_name(file: Path) -> str:
    return file.name.removesuffix(".gz").removesuffix(".txt")


def lines_of(text: str) -> list[str]:
    """Lines with a character in them. Only LF and CR LF end a line: U+0085 is a mark of some encodings."""
    return [line.removesuffix("\r") for line in text.split("\n") if line.strip()]


def read_text(file: Path, encoding: str) -> str:
    try:
        content = file.read_bytes()
        return (gzip.decompress(content) if file.suffix == ".gz" else content).decode(encoding)
    except UnicodeDecodeError:
        raise DataError(
            f'{file}: cannot be read as {encoding}; try encoding = "latin-1" or "cp1252".'
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file}: expected a readable text ({type(error).__name__}).") from None


def _digest(label: str, line: str) -> bytes:
    return record_digest(label.encode("utf-8", "surrogateescape"), line.encode())


@dataclass(frozen=True)
class Passage:
    """tokens: (T + 1,), T inputs and as many next tokens. text: theirs, in UTF-8. raw: its digest."""

    tokens: Tokens
    text: bytes

    @property
    def raw(self) -> bytes:
        return digest(self.text)


def passages(text: str, encoder: Encoder, length: int) -> Iterator[Passage]:
    """The text in passages of `length` + 1 tokens; the remainder at its end is dropped."""
    tokens, ends = encoder.running(text)
    source = text.encode() if encoder.counts_bytes else text
    start = 0
    for first in range(0, len(tokens) - length, length + 1):
        end = int(ends[first + length])
        part = source[start:end]
        yield Passage(tokens[first : first + length + 1], part.encode() if isinstance(part, str) else part)
        start = end


def digest(passage: bytes) -> bytes:
    """SHA-256 of the passage's window with the smallest hash; of all of it if it is shorter than one.

    A ledger identifies the passage by it. The same text, cut into longer passages or read with another
    tokenizer, must give the same digests, wherever passages begin. So it is a digest of one window of WINDOW
    bytes (winnowing: Schleimer, Wilkerson, Aiken 2003, "Winnowing: local algorithms for document
    fingerprinting"). A passage that is twice as long has the smaller of two hashes.
    """
    if len(passage) > WINDOW:
        start = int(np.argmin(window_hashes(np.frombuffer(passage, np.uint8))))
        passage = passage[start : start + WINDOW]
    return hashlib.sha256(passage).digest()


def window_hashes(content: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """For each window of WINDOW bytes: a polynomial in its bytes, mixed, so that any may be the smallest."""
    number = max(0, len(content) - WINDOW + 1)
    hashes = np.zeros(number, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for place in range(WINDOW):
            hashes = hashes * _BASE + content[place : place + number]
        hashes = (hashes ^ (hashes >> np.uint64(29))) * _MIX
    return hashes ^ (hashes >> np.uint64(32))


SOURCE = Source(
    lambda location, split: load_text(location.path, location.reading, split),
    argument="PATH",
    is_path=True,
    endings=SUFFIXES,
    lines=raw_lines,
)
