"""The public part of a run's files, without paths: its settings, and the data in model.json."""

import hashlib
from collections.abc import Mapping
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from fl_dp.clean_text import clean
from fl_dp.config.files import read_json, read_toml
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.reporting.page.facts import Named
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.wording import some

_PLACES = ("out", "data-root", "engine", "ledgers", "ray-address")  # of the machine, not of the model
_UNITS = {"round-timeout": "s", "memory-mib": "MiB"}
_DESCRIBED = ("model", "loss", "data", "task", "identity")
_CLASSES, _MOST = 40, 2000  # classes that are named in one line, and counted


def read_settings(folder: RunFolder) -> tuple[dict[str, str], tuple[tuple[str, str, str], ...]]:
    """What each key was in the run; of those that are not a default here, what was asked for and what ran."""
    asked = read_toml(folder.config) if folder.config.exists() else {}
    became = read_toml(folder.resolved) if folder.resolved.exists() else asked
    usual = RunConfig().to_flat()
    keys = [key for key in dict.fromkeys((*asked, *became)) if key not in _PLACES]
    told = [
        (clean(key), _shown(asked, key), _shown(became, key))
        for key in keys
        if not asked.get(key) == became.get(key) == usual.get(key)
    ]
    return {clean(key): _shown(became, key) for key in keys}, tuple(told)


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


def data_facts(found: Mapping[str, Any]) -> Named:
    """What it says of the data. Values of another type are left out: nobody vouches for them."""
    form, classes, schema = found.get("form"), found.get("classes"), found.get("schema")
    record, predicted = _words_of(form) if isinstance(form, dict) else ("", "")
    text = schema if isinstance(schema, str) else ""
    names = some([clean(one) for one in classes[:_MOST]], _CLASSES) if isinstance(classes, list) else ""
    told = {
        "One record": record,
        "Predicted": predicted,
        "Names of what is predicted": names,
        "SHA-256 of the schema": hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        if text
        else "",
    }
    return tuple((name, value) for name, value in told.items() if value)


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
