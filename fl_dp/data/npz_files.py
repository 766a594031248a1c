"""Reads arrays of an untrusted .npz file, after comparing the sizes that headers claim with the file.

NumPy allocates the size in an array's header before it reads the array. A header of 100 bytes may claim 28
GiB, and so may a zip's directory. A zip may also really expand to a thousand times its size.
"""

import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from fl_dp.errors import DataError

_ENDING = ".npy"
_MOST_DEFLATED = 1032  # most bytes that one compressed byte can become (zlib's own documentation)
_SLACK = 1024  # bytes; for nearly empty files
_READERS: dict[tuple[int, int], Callable[[IO[bytes]], tuple[tuple[int, ...], bool, np.dtype[Any]]]] = {
    (1, 0): npy.read_array_header_1_0,
    (2, 0): npy.read_array_header_2_0,
}
# What the zip module and NumPy raise for a file that is something else, or was changed.
_DAMAGED = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)

_OF_A_PARSER = (RecursionError, MemoryError, SyntaxError, tokenize.TokenError)  # a header is read as Python

Arrays = dict[str, np.ndarray]


def read_npz(path: Path, wanted: Callable[[Collection[str]], Collection[str]]) -> Arrays:
    """Some of the file's arrays, by name. wanted: picks names from those in the file; may raise DataError.

    DataError, with the file's name and no value, for a file that is missing, damaged, no .npz file, or larger
    than this machine's memory; for arrays of objects, which could run code; and for a header that claims more
    than the file holds. All of this is checked before memory is allocated.
    """
    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise DataError(f"{path}: expected a readable .npz file of plain arrays{_instead(file)}.")
            with zipfile.ZipFile(file) as archive:
                members = {name.removesuffix(_ENDING): archive.getinfo(name) for name in archive.namelist()}
                names = wanted(members)
                whole = sum(_checked_size(path, archive, name, members[name]) for name in names)
                if whole > machine_memory():
                    raise DataError(
                        f"{path}: its arrays take {whole / 2**30:.1f} GiB, more than this machine's memory."
                    )
                return {name: _array(archive, members[name]) for name in names}
    except DataError:
        raise
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; expected an .npz file.") from None
    except _DAMAGED as error:
        raise DataError(
            f"{path}: expected a readable .npz file of plain arrays ({type(error).__name__})."
        ) from None


def _instead(file: IO[bytes]) -> str:
    file.seek(0)
    return ", not one array" if file.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX else ""


def machine_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _checked_size(path: Path, archive: zipfile.ZipFile, name: str, member: zipfile.ZipInfo) -> int:
    """The array's size in bytes; DataError if its header claims a size that the file cannot hold."""
    with archive.open(member) as file:
        shape, kind, start = _header(path, name, file)
    if kind.hasobject:
        raise DataError(
            f"{path}: {name} is not a plain array: it holds objects, such as None, or mixes numbers and "
            "texts. Give it one dtype, of numbers or of texts; leave out records without a label."
        )
    size = math.prod(shape) * kind.itemsize
    most = member.compress_size
    if member.compress_type != zipfile.ZIP_STORED:
        most = most * _MOST_DEFLATED + _SLACK
    if min(shape, default=0) < 0 or not start + size == member.file_size <= most:
        raise DataError(
            f"{path}: {name} claims shape {shape!s:.60} of {kind}, which is not what the file holds; it "
            "is damaged."
        )
    if member.compress_size > path.stat().st_size:
        raise DataError(f"{path}: {name} is cut off; the file is damaged.")
    return size


def _header(path: Path, name: str, file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape and type that the array's header claims, and the number of bytes before its values."""
    try:
        version = npy.read_magic(file)
        shape, _, kind = _READERS[version](file)
    except (*_DAMAGED, *_OF_A_PARSER) as error:
        raise DataError(
            f"{path}: {name} is not a plain array, or is damaged ({type(error).__name__})."
        ) from None
    return shape, kind, file.tell()


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(member) as file:
        found: np.ndarray = npy.read_array(file, allow_pickle=False)  # a pickle could run code
        file.read()  # to its end, where the checksum is verified
        return found
