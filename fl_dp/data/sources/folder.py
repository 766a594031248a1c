"""A folder of images: one folder per class, in train/ and test/ or split by name."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from fl_dp.config.files import read_toml
from fl_dp.data.images import stack
from fl_dp.data.source import AS_THEY_ARE, Reading, Source
from fl_dp.data.stable_split import record_digest, split_of
from fl_dp.data.subgroups import Subgroups
from fl_dp.data.tables.division import Division, division_of
from fl_dp.data.tables.files import read_csv
from fl_dp.data.tensor_data import Split, TensorData
from fl_dp.errors import ConfigError, DataError, located

_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
_DECLARED, _OF_EACH = "subgroups.toml", "subgroups.csv"
_FILE = "file"  # the column with the image's path


def load_folder(path: Path, split: Split, reading: Reading = AS_THEY_ARE) -> TensorData:
    """One split of the images under `path`, uint8 (n, C, H, W); classes are the sorted folder names.

    | layout                                        | the split of an image                          |
    |-----------------------------------------------|------------------------------------------------|
    | PATH/train/<class>/..., PATH/test/<class>/... | its folder                                     |
    | PATH/<class>/...                              | a hash of <class>/<name>: 80% train, 20% test  |

    All images have one size and one colour mode, L or RGB, or are converted to those of the settings. Hidden
    files, and files without an image suffix, are left out. An empty class folder declares a class without
    examples. A ledger identifies an image by its file's bytes and its class, whatever size it is converted
    to. DataError for anything else, which names the file or folder. Subgroups: see `_subgroups`.
    """
    if not path.is_dir():
        raise DataError(f"{path}: no such folder; expected one folder of images per class.")
    tops = [path / name for name in ("train", "test") if (path / name).is_dir()]
    classes = sorted({folder.name for top in tops or [path] for folder in _folders(top)})
    if tops:
        files = [(label, file) for label, name in enumerate(classes) for file in _images(path / split / name)]
    else:
        files = [
            (label, file)
            for label, name in enumerate(classes)
            for file in _images(path / name)
            if _split_by_name(f"{name}/{file.name}") == split
        ]
    if not files:
        raise DataError(f"{path}: no {split} images; expected one folder of images per class.")
    raw: list[bytes] = []

    def contents() -> Iterator[tuple[str, bytes]]:
        for label, file in files:
            content = _content(file)
            raw.append(record_digest(classes[label].encode("utf-8", "surrogateescape"), content))
            yield str(file), content

    images = stack(contents(), len(files), reading)
    labels = torch.tensor([label for label, _ in files])
    places = [file.relative_to(path).as_posix() for _, file in files]
    subgroups = () if split == "train" else _subgroups(path, places)
    return TensorData(images, labels, tuple(classes), raw=tuple(raw), subgroups=subgroups)


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror}.") from None


def _folders(top: Path) -> list[Path]:
    return [entry for entry in top.iterdir() if entry.is_dir() and not entry.name.startswith(".")]


def _images(folder: Path) -> list[Path]:
    """Images at any depth, sorted, because file systems list them in different orders."""
    found = (file for file in folder.rglob("*") if file.suffix.lower() in _SUFFIXES and file.is_file())
    return sorted(file for file in found if not file.name.startswith("."))


def _split_by_name(name: str) -> Split:
    return split_of(hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest())


def _subgroups(folder: Path, images: Sequence[str]) -> tuple[Subgroups, ...]:
    """Subgroups of the images, given by their paths in the folder; none if it declares none.

    subgroups.toml declares them, and subgroups.csv has a row for each test image. Columns are declared as in
    a table's schema, see `fl_dp/data/tables/parse.py`.

        # DIR/subgroups.toml                     # DIR/subgroups.csv
        [columns.sex]                            file,sex,age
        subgroups = ["F", "M"]                   test/ill/17.png,F,61
        [columns.age]
        bands = [50, 65]

    DataError, naming the file, if one of the two is wrong or missing, or if an image has no row. Rows of
    other images are ignored.
    """
    declared, of_each = folder / _DECLARED, folder / _OF_EACH
    if not declared.exists():
        if of_each.exists():
            raise DataError(f"{declared}: no such file; it declares publicly the subgroups of {_OF_EACH}.")
        return ()
    divisions = _declared(declared)
    table = read_csv(of_each)
    if set(table.names) != {_FILE, *divisions} or len(table.names) != len(divisions) + 1:
        raise DataError(f"{of_each}: expected the columns {', '.join([_FILE, *divisions])}.")
    columns = dict(zip(table.names, table.columns, strict=True))
    rows = {place: row for row, place in enumerate(columns[_FILE])}
    if len(rows) != len(table):
        raise DataError(f"{of_each}: has two rows for one image.")
    if missing := [image for image in images if image not in rows]:
        raise DataError(
            f"{of_each}: has no row for {len(missing)} test images, such as {missing[0]}; write each file as "
            f"its path in {folder.name}, with slashes."
        )
    chosen = [rows[image] for image in images]
    return tuple(one.of(name, columns[name][chosen], ".") for name, one in divisions.items())


def _declared(path: Path) -> dict[str, Division]:
    try:
        content = read_toml(path, named=True)
    except ConfigError as error:
        raise DataError(str(error)) from None
    columns = content.get("columns")
    if set(content) != {"columns"} or not isinstance(columns, dict) or not columns or _FILE in columns:
        raise DataError(
            f"{path}: expected parts [columns.NAME] and no others, with a NAME other than {_FILE}."
        )
    with located(path):
        return {name: _division(name, part) for name, part in columns.items()}


def _division(name: str, part: object) -> Division:
    found = division_of(part) if isinstance(part, dict) and len(part) == 1 else None
    if found is None:
        raise DataError(f"column {name!r}: expected subgroups = [VALUE, ...] or bands = [BOUND, ...].")
    return found


SOURCE = Source(
    lambda location, split: load_folder(location.path, split, location.reading),
    argument="PATH",
    is_path=True,
    endings=_SUFFIXES,
)
