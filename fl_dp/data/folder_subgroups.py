"""Subgroups of a folder's images: declared in subgroups.toml, with a row of subgroups.csv per test image.

    # DIR/subgroups.toml                     # DIR/subgroups.csv
    [columns.sex]                            file,sex,age
    subgroups = ["F", "M"]                   test/ill/17.png,F,61
    [columns.age]
    bands = [50, 65]

Columns are declared like those of a table, see `fl_dp/data/tables/parse.py`.
"""

from collections.abc import Sequence
from pathlib import Path

from fl_dp.config.files import read_toml
from fl_dp.data.subgroups import Subgroups
from fl_dp.data.tables.declared import division_of
from fl_dp.data.tables.division import Division
from fl_dp.data.tables.files import read_csv
from fl_dp.errors import ConfigError, DataError

DECLARED, OF_EACH = "subgroups.toml", "subgroups.csv"
_FILE = "file"  # the column with the image's path


def folder_subgroups(folder: Path, images: Sequence[str]) -> tuple[Subgroups, ...]:
    """Subgroups of the images, given by their paths in the folder; none if it declares none.

    DataError, naming the file, if one of the two is wrong or missing, or if an image has no row. Rows of
    other images are ignored.
    """
    declared, of_each = folder / DECLARED, folder / OF_EACH
    if not declared.exists():
        if of_each.exists():
            raise DataError(f"{declared}: no such file; it declares the subgroups of {OF_EACH}, in public.")
        return ()
    divisions = _declared(declared)
    table = read_csv(of_each)
    if set(table.names) != {_FILE, *divisions} or len(table.names) != len(divisions) + 1:
        raise DataError(f"{of_each}: expected the columns {', '.join([_FILE, *divisions])}.")
    columns = dict(zip(table.names, table.columns, strict=True))
    rows = {place: row for row, place in enumerate(columns[_FILE])}
    if len(rows) != len(table):
        raise DataError(f"{of_each}: names an image twice.")
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
        raise DataError(f"{path}: expected parts [columns.NAME] and no more, NAME another than {_FILE}.")
    try:
        return {name: _division(name, part) for name, part in columns.items()}
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def _division(name: str, part: object) -> Division:
    found = division_of(part) if isinstance(part, dict) and len(part) == 1 else None
    if found is None:
        raise DataError(f"column {name!r}: expected subgroups = [VALUE, ...] or bands = [BOUND, ...].")
    return found
