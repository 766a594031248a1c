"""The settings of a run: what was asked for, and what became of it, without places of the machine."""

from collections.abc import Mapping
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from fl_dp.clean_text import clean
from fl_dp.config.files import read_toml
from fl_dp.reporting.page.facts import Setting
from fl_dp.reporting.run_folder import RunFolder

_PLACES = ("out", "data-root", "engine", "ledgers", "ray-address")  # of the machine, and not of the model
SEEDS = ("seed",)
_UNITS = {"round-timeout": "s", "client-timeout": "s", "approval-wait": "s", "memory-mib": "MiB"}


def read_settings(folder: RunFolder) -> tuple[Setting, ...]:
    """Every key of config.toml, in its order; nothing where there is none."""
    asked = read_toml(folder.config) if folder.config.exists() else {}
    became = read_toml(folder.resolved) if folder.resolved.exists() else asked
    keys = [key for key in dict.fromkeys((*asked, *became)) if key not in _PLACES]
    return tuple(Setting(clean(key), _shown(asked, key), _shown(became, key)) for key in keys)


def name_of_run(folder: RunFolder) -> str:
    """Of the folder that the run was written to; empty where its files name none."""
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
    """'npz:/data/a.npz' as 'npz:a.npz': a text that names a file, without where it lies."""
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
