"""model.json, read for people: what was trained on which kind of data, as far as it is public."""

import hashlib
import tomllib
from collections.abc import Mapping
from typing import Any

from fl_dp.clean_text import clean
from fl_dp.config.files import read_json
from fl_dp.errors import ConfigError
from fl_dp.reporting.page.facts import DataFacts, Named
from fl_dp.reporting.page.setting_facts import without_place
from fl_dp.reporting.run_folder import RunFolder

_DESCRIBED = ("model", "loss", "data", "task", "identity")
_MOST = 2000  # classes or columns that are read
_HOLDS = ("range", "categories", "classes")  # keys of a column in a schema: what its cells may be
_TOLD_APART = ("subgroups", "bands")


def read_description(folder: RunFolder) -> Mapping[str, Any]:
    """model.json; empty where there is none. ConfigError where it is damaged."""
    if not folder.description.exists():
        return {}
    found = read_json(folder.description)
    if not isinstance(found, dict):
        raise ConfigError(f"{folder.description}: is damaged: it is no object.")
    return found


def described(found: Mapping[str, Any]) -> Named:
    """What it says of the model, without places of the machine."""
    return tuple(
        (key, clean(without_place(found[key])))
        for key in _DESCRIBED
        if isinstance(found.get(key), str) and found[key]
    )


def data_facts(found: Mapping[str, Any]) -> DataFacts:
    """What it says of the data. What is of another form there is left out: nobody vouches for it."""
    form, classes, schema = found.get("form"), found.get("classes"), found.get("schema")
    text = schema if isinstance(schema, str) else ""
    record, predicted = _words_of(form) if isinstance(form, dict) else ("", "")
    return DataFacts(
        record=record,
        predicted=predicted,
        classes=tuple(map(clean, classes[:_MOST])) if isinstance(classes, list) else (),
        columns=_columns(text),
        schema=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() if text else "",
    )


def _words_of(form: Mapping[str, Any]) -> tuple[str, str]:
    """One record, and what is predicted of it; empty where the form is none of fl_dp's."""
    shape, outputs, vocabulary = (form.get(key) for key in ("input_shape", "outputs", "vocabulary"))
    if not (isinstance(shape, list) and all(type(one) is int for one in (*shape, outputs, vocabulary))):
        return "", ""
    sides = " x ".join(clean(one) for one in shape[:9])
    record = f"{sides} tokens of {vocabulary:,}" if vocabulary else f"{sides} numbers"
    predicted = {
        "class": f"one of {outputs:,} classes",
        "numbers": f"{outputs:,} number{'' if outputs == 1 else 's'}",
        "tokens": f"the next token, of {outputs:,}",
    }
    targets = form.get("targets")
    return record, predicted.get(targets, "") if isinstance(targets, str) else ""


def _columns(schema: str) -> tuple[tuple[str, str, str], ...]:
    """Name, kind and what it may hold, of each column that a schema's text declares."""
    try:
        columns = tomllib.loads(schema).get("columns")
    except (ValueError, RecursionError):  # its digest is on the page all the same
        return ()
    if not isinstance(columns, dict):
        return ()
    parts = [(name, part) for name, part in columns.items() if isinstance(part, dict)]
    return tuple((clean(name), clean(part.get("kind", "")), _holds(part)) for name, part in parts[:_MOST])


def _holds(part: Mapping[str, Any]) -> str:
    held = _listed(part, _HOLDS, " to " if "range" in part else ", ")
    told = _listed(part, _TOLD_APART, ", ")
    return "; ".join(filter(None, (held, told and f"{'bands' if 'bands' in part else 'subgroups'} {told}")))


def _listed(part: Mapping[str, Any], keys: tuple[str, ...], between: str) -> str:
    found = next((part[key] for key in keys if key in part), ())
    if isinstance(found, dict):  # of classes that have names, the names
        found = list(found)
    return clean(between.join(map(str, found[:_MOST]))) if isinstance(found, list) else ""
