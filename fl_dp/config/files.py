"""Reads TOML and JSON files of settings and results; anything unreadable is a ConfigError."""

import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fl_dp.choices import nearest
from fl_dp.errors import ConfigError

# What decoders raise: ValueError for a number of too many digits, RecursionError for too many brackets.
DAMAGED = (ValueError, RecursionError)
_NO_TOML = ("YAML", "YML", "JSON")  # file endings


def read_toml(path: Path, *, what: str = "file", named: bool = False) -> dict[str, Any]:
    """The table in the file; ConfigError, which names the file, if it is missing or damaged.

    named: the user named the file, so a link is followed. Otherwise see `check_plain`.
    """
    if not named:
        check_plain(path)
    kind = path.suffix[1:].upper()
    hint = f" Write TOML, not {kind}: KEY = VALUE lines, such as rounds = 3." if kind in _NO_TOML else ""
    found: dict[str, Any] = _read(path, tomllib.loads, what, "not a readable TOML file", hint)
    return found


def read_json(path: Path, *, what: str = "file") -> Any:
    """The content of the file; ConfigError, which quotes nothing, if it is missing or damaged.

    Raises as `check_plain`, too.
    """
    check_plain(path)
    return _read(path, lambda text: json.loads(text, parse_constant=no_constant), what, "is damaged")


def parse_json(content: bytes, where: str) -> Any:
    """The parsed content; ConfigError, which names `where` and quotes nothing, if it is not JSON."""
    try:
        return json.loads(content.decode("utf-8"), parse_constant=no_constant)
    except DAMAGED:
        raise ConfigError(f"{where}: is damaged: it is not readable JSON.") from None


def no_constant(name: str) -> Any:
    """For `json.loads`: ValueError for NaN and infinity, which are no JSON and which fl_dp never writes."""
    raise ValueError(f"{name} is not a number")


def check_plain(path: Path) -> None:
    """Raise ConfigError for a pipe or device, which could block for ever, and for a link out of the folder.

    Others may have supplied the folder: such a link would show them a file of this machine.
    """
    if path.is_symlink():
        folder = os.path.realpath(path.parent)
        if os.path.commonpath([folder, os.path.realpath(path)]) != folder:
            raise ConfigError(f"{path}: cannot be read: it is a link that leads out of its folder.")
        if not path.exists():
            raise ConfigError(f"{path}: cannot be read: it is a link that leads nowhere.")
    _check_file(path)


def _check_file(path: Path) -> None:
    if path.exists() and not path.is_file():
        folder = ", but a folder" if path.is_dir() else ""
        raise ConfigError(f"{path}: cannot be read: it is not a regular file{folder}.")


def _read(path: Path, parse: Callable[[str], Any], what: str, wrong: str, hint: str = "") -> Any:
    _check_file(path)
    try:
        return parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        near = nearest(path.name, [one.name for one in path.parent.glob("*")])
        raise ConfigError(f"{path}: no such {what}{f'; did you mean {near}?' if near else '.'}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: {wrong}: it is not UTF-8.") from None
    except RecursionError:
        raise ConfigError(f"{path}: {wrong}: its brackets are nested too deeply.") from None
    except ValueError as error:
        raise ConfigError(f"{path}: {wrong}: {str(error).rstrip('.')}.{hint}") from None
