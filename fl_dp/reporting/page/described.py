"""The public part of a run's files, without paths: its settings, and the data in model.json."""

import hashlib
import tomllib
from collections.abc import Mapping
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from fl_dp.clean_text import clean
from fl_dp.config.files import read_json, read_toml
from fl_dp.errors import ConfigError
from fl_dp.reporting.page.facts import DataFacts, Setting
from fl_dp.reporting.run_folder import RunFolder

_PLACES = ("out", "data-root", "engine", "ledgers", "ray-address")  # of the machine, not of the model
_UNITS = {"round-timeout": "s", "client-timeout": "s", "approval-wait": "s", "memory-mib": "MiB"}
_DESCRIBED = ("model", "loss", "data", "task", "identity")
_MOST = 2000  # classes or columns to read
_HOLDS = ("range", "points", "categories", "classes")  # keys that say what a column may hold
_TOLD_APART = ("subgroups", "bands")


def read_settings(folder: RunFolder) -> tuple[Setting, ...]:
    """Every key of config.toml, in order; empty if there is none."""
    asked = read_toml(folder.config) if folder.config.exists() else {}
    became = read_toml(folder.resolved) if folder.resolved.exists() else asked
    keys = [key for key in dict.fromkeys((*asked, *became)) if key not in _PLACES]
    return tuple(Setting(clean(key), _shown(asked, key), _shown(became, key)) for key in keys)


def name_of_run(folder: RunFolder) -> str:
    """Name of the folder that the run was written to; empty if its files name none."""
    out = read_toml(folder.config).get("out", "") if folder.config.exists() else ""
    return clean(PurePosixPath(str(out)).name)


def _shown(found: Mapping[str, Any], key: str) -> str:
    value = found.get(key, "")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key in _UNITS and isinstance(value, int | float):
        return f"{value:g} {_UNITS[key]}"
    return clean(without_place(value) if isinstance(value, str) else value)


def without_place(value: str) -> str:
    """'npz:/data/a.npz' as 'npz:a.npz': removes the folder of a file that a text names."""
    kind, colon, place = value.partition(":")
    if not colon or "/" in kind or len(kind) < 2:  # a drive is one letter
        kind, colon, place = "", "", value
    return f"{kind}{colon}{_last(place)}"


def _last(place: str) -> str:
    if place.startswith(("/", "./", "../", "~")):
        return PurePosixPath(place).name
    if "\\" in place:
        return PureWindowsPath(place).name
    return place


def read_description(folder: RunFolder) -> Mapping[str, Any]:
    """model.json; empty if there is none. ConfigError if it is damaged."""
    if not folder.description.exists():
        return {}
    found = read_json(folder.description)
    if not isinstance(found, dict):
        raise ConfigError(f"{folder.description}: is damaged: it is not a JSON object.")
    return found


def described(found: Mapping[str, Any]) -> dict[str, str]:
    """What it says of the model, without paths."""
    return {
        key: clean(without_place(found[key]))
        for key in _DESCRIBED
        if isinstance(found.get(key), str) and found[key]
    }


def data_facts(found: Mapping[str, Any]) -> DataFacts:
    """What it says of the data. Values of another type are left out: nobody vouches for them."""
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
    """One record, and what is predicted of it; empty if the form is none of fl_dp's."""
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
    """Name, kind and permitted content of each column that a schema's text declares."""
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
    if isinstance(found, dict):  # of named classes only the names
        found = list(found)
    return clean(between.join(map(str, found[:_MOST]))) if isinstance(found, list) else ""
