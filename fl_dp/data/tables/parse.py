"""Parses a TOML schema file into a `Schema`. Every error names the file and the column.

    missing = ["", "?"]        # cells that mean a missing value, in all columns; default: [""]
    header = true              # the first line names the columns
    separator = ","            # of a CSV file
    encoding = "utf-8"         # of a CSV file; without it: the setting encoding
    decimal = "."              # of numbers in cells: "," in 61,8
    split = "hash"             # a fifth of the records is for testing; "none": none is; "file": a file is

    [columns.age]
    kind = "number"
    range = [18, 90]           # public, never taken from private records
    if-missing = "encode"      # or "drop" the record, or "refuse" the file (the default)

| kind     | what it needs                                                   | and maybe      |
|----------|-----------------------------------------------------------------|-----------------|
| number   | `range = [LOW, HIGH]`, or `points = [LOW, ..., HIGH]`           |                 |
| category | `categories = [VALUE, ...]`                                     | baseline, other |
| label    | `classes = [VALUE, ...]` or `classes = { NAME = [VALUE, ...] }` |                 |
| target   | `range = [LOW, HIGH]`                                           |                 |
| group    |                                                                 |                 |
| site     |                                                                 |                 |
| subgroup | `subgroups` or `bands`                                          |                 |
| split    | `train = [VALUE, ...]`, `test = [VALUE, ...]`                   |                 |
| ignore   |                                                                 |                 |

VALUE: a text means exactly that text, a number every way to write it (1, 1.0).

A number, category, site or subgroup may divide test records into subgroups: `subgroups = [VALUE, ...]`,
`subgroups = { NAME = [VALUE, ...] }`, or for numbers `bands = [BOUND, ...]`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from fl_dp.config.data import ENCODINGS
from fl_dp.config.files import read_toml
from fl_dp.data.tables.cells import Value
from fl_dp.data.tables.columns import (
    Category,
    Column,
    Group,
    Label,
    Number,
    Site,
    SplitColumn,
    SubgroupColumn,
    Target,
    Uneven,
)
from fl_dp.data.tables.division import distinct, division_of, named_values, values_of
from fl_dp.data.tables.schema import FILE, HASH, NONE, Schema
from fl_dp.errors import ConfigError, DataError, located

_TOP = {"missing", "header", "separator", "encoding", "decimal", "split", "columns"}
_MISSING = {"missing", "if-missing"}
_DIVIDED = {"subgroups", "bands"}
_DECIMALS = (".", ",")
_FEWEST_CLASSES = 2


def read_schema(path: Path) -> Schema:
    """The schema in the file at `path`; DataError says what is wrong with it."""
    try:
        content = read_toml(
            path,
            what="schema file. `fl-dp schema FILE` drafts one; the setting schema names another",
            named=True,
        )
    except ConfigError as error:
        raise DataError(str(error)) from None
    with located(path):
        return parse_schema(content)


def parse_schema(content: Mapping[str, Any]) -> Schema:
    """`content` as a `Schema`; DataError unless it is one."""
    _known(content, _TOP, "the schema")
    columns = content.get("columns")
    if not isinstance(columns, dict) or not columns:
        raise DataError("expected a part [columns.NAME] for every column of the file.")
    missing = values_of(content.get("missing", [""]), "missing")
    decimal = _one_of(content, "decimal", _DECIMALS, ".")
    schema = Schema(
        _columns(columns, missing, decimal),
        _flag(content, "header", True),
        content.get("separator", ","),
        content.get("split", HASH),
        _one_of(content, "encoding", ENCODINGS, ""),
    )
    if not (isinstance(schema.separator, str) and len(schema.separator) == 1):
        raise DataError(f"separator = {schema.separator!r}: expected one character.")
    if schema.split not in (HASH, NONE, FILE):
        raise DataError(
            f'split = {schema.split!r}: expected {HASH!r}, {NONE!r} or {FILE!r}, or a column of kind "split".'
        )
    _check_whole(schema)
    return schema


def _check_whole(schema: Schema) -> None:
    labels, targets = schema.of_kind(Label), schema.of_kind(Target)
    if not schema.input_columns:
        raise DataError('expected a column of kind "number" or "category": there is no input.')
    if bool(labels) == bool(targets):
        raise DataError('expected either columns of kind "label" or columns of kind "target".')
    if len(labels) > 1 and (wrong := [one.name for one in labels if len(one.classes) != _FEWEST_CLASSES]):
        raise DataError(f"column {wrong[0]!r}: with several labels, each must have two classes, no and yes.")
    for kind, found in (("group", schema.of_kind(Group)), ("split", schema.of_kind(SplitColumn))):
        if len(found) > 1:
            raise DataError(f"expected one column of kind {kind!r} at most.")
    if schema.split == FILE and schema.one(SplitColumn):
        raise DataError(f'split = {FILE!r} and a column of kind "split" exclude each other; keep one.')


def _columns(parts: Mapping[str, Any], missing: tuple[Value, ...], decimal: str) -> tuple[Column, ...]:
    """DataError says what is wrong with the first wrong column, and names the others."""
    found: list[Column] = []
    wrong: dict[str, str] = {}
    for name, part in parts.items():
        try:
            found.append(_column(name, part, missing, decimal))
        except DataError as error:
            wrong[name] = str(error)
    if wrong:
        first, *others = wrong
        also = f" Also wrong or blank: {', '.join(map(repr, others))}." if others else ""
        raise DataError(wrong[first] + also)
    return tuple(found)


def _column(name: str, part: Any, missing: tuple[Value, ...], decimal: str) -> Column:
    if not isinstance(part, dict) or part.get("kind") not in _KINDS:
        raise DataError(f"column {name!r}: expected a kind, one of {', '.join(_KINDS)}.")
    keys, build = _KINDS[part["kind"]]
    _known(part, keys | {"kind"}, f"column {name!r}")
    common: dict[str, Any] = {
        "name": name,
        "decimal": decimal,
        "missing": values_of(part["missing"], f"column {name!r}: missing") if "missing" in part else missing,
    }
    if "if-missing" in part:
        encoded = part["kind"] in ("number", "category")
        choices = ("refuse", "drop", "encode") if encoded else ("refuse", "drop")
        if part["if-missing"] not in choices:
            raise DataError(f"column {name!r}: expected if-missing to be one of {', '.join(choices)}.")
        common["if_missing"] = part["if-missing"]
    with located(f"column {name!r}"):
        common["division"] = division_of(part)
        return build(part, common)


def _number(part: Mapping[str, Any], common: dict[str, Any]) -> Column:
    if "points" in part and "range" not in part:
        points = _points(part["points"])
        return Uneven(low=points[0], high=points[-1], points=points, **common)
    if "points" in part:
        raise DataError("expected range or points, not both.")
    return Number(**_range(part), **common)


def _range(part: Mapping[str, Any]) -> dict[str, Any]:
    match part.get("range"):
        case [int() | float() as low, int() | float() as high] if -math.inf < low < high < math.inf:
            return {"low": float(low), "high": float(high)}
    raise DataError("expected range = [LOW, HIGH], two public numbers, never taken from private records.")


def _points(found: Any) -> tuple[float, ...]:
    if isinstance(found, list) and len(found) > 1 and all(type(one) in (int, float) for one in found):
        points = tuple(map(float, found))
        if all(map(math.isfinite, points)) and all(a < b for a, b in pairwise(points)):
            return points
    raise DataError(
        "expected points = [LOW, ..., HIGH], increasing public numbers, never quantiles of private records."
    )


def _category(part: Mapping[str, Any], common: dict[str, Any]) -> Column:
    categories, baseline = values_of(part.get("categories"), "categories"), part.get("baseline")
    distinct([categories])
    if not categories:
        raise DataError("expected categories = [VALUE, ...], public ones, never taken from private records.")
    if baseline is not None and baseline not in categories:
        raise DataError("expected baseline to be one of its categories.")
    column = Category(categories=categories, baseline=baseline, other=_flag(part, "other", True), **common)
    if not column.inputs:
        raise DataError("a column whose only category is the baseline has no information.")
    return column


def _label(part: Mapping[str, Any], common: dict[str, Any]) -> Column:
    names, values = named_values(part.get("classes"), "classes")
    if len(names) < _FEWEST_CLASSES or not all(values):
        raise DataError("expected at least two classes, each with a value.")
    return Label(classes=names, values=values, **common)


def _subgroup(part: Mapping[str, Any], common: dict[str, Any]) -> Column:
    """A missing cell belongs to no declared subgroup; the file is not refused for it."""
    if common["division"] is None:
        raise DataError("expected subgroups = [VALUE, ...] or bands = [BOUND, ...], public ones.")
    return SubgroupColumn(if_missing="encode", **common)


def _split(part: Mapping[str, Any], common: dict[str, Any]) -> Column:
    train, test = (values_of(part.get(key), key) for key in ("train", "test"))
    distinct([train, test])
    return SplitColumn(train=train, test=test, **common)


_Build = Callable[[Mapping[str, Any], dict[str, Any]], Column]

_KINDS: dict[str, tuple[set[str], _Build]] = {
    "number": ({"range", "points", *_MISSING, *_DIVIDED}, _number),
    "category": ({"categories", "baseline", "other", *_MISSING, *_DIVIDED}, _category),
    "label": ({"classes", *_MISSING}, _label),
    "target": ({"range", *_MISSING}, lambda part, common: Target(**_range(part), **common)),
    "group": (_MISSING, lambda part, common: Group(**common)),
    "site": (_MISSING | _DIVIDED, lambda part, common: Site(**common)),
    "subgroup": (_DIVIDED, _subgroup),
    "split": ({"train", "test"}, _split),
    "ignore": (set(), lambda part, common: Column(**common)),
}


def _known(part: Mapping[str, Any], keys: set[str], what: str) -> None:
    for key in part:
        if key not in keys:
            raise DataError(f"{what}: unknown key {key!r}; known are {', '.join(sorted(keys))}.")


def _flag(part: Mapping[str, Any], key: str, default: bool) -> bool:
    value = part.get(key, default)
    if not isinstance(value, bool):
        raise DataError(f"expected {key} to be true or false.")
    return value


def _one_of(part: Mapping[str, Any], key: str, choices: Sequence[str], default: str) -> str:
    value = part.get(key, default)
    if key in part and value not in choices:
        raise DataError(f"{key} = {value!r}: expected {' or '.join(map(repr, choices))}.")
    return str(value)
