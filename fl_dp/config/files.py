"""Files of settings and results, TOML and JSON: whatever one holds, what cannot be read is a ConfigError."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fl_dp.errors import ConfigError

# What decoders raise: a number of too many digits is a ValueError, too many brackets a RecursionError.
DAMAGED = (ValueError, RecursionError)


def read_toml(path: Path, *, what: str = "file") -> dict[str, Any]:
    """The table in the file; ConfigError, which names it, where it is not there or damaged."""
    found: dict[str, Any] = _read(path, tomllib.loads, what, "not a readable TOML file")
    return found


def read_json(path: Path, *, what: str = "file") -> Any:
    """What the file says; ConfigError, which names it and quotes nothing, where it is missing or damaged."""
    return _read(path, json.loads, what, "is damaged")


def check_plain(path: Path) -> None:
    """ConfigError for a pipe or a device, which could be waited for without end."""
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path}: cannot be read: it is no plain file.")


def _read(path: Path, parse: Callable[[str], Any], what: str, wrong: str) -> Any:
    check_plain(path)
    try:
        return parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such {what}.") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: {wrong}: it is not UTF-8.") from None
    except RecursionError:
        raise ConfigError(f"{path}: {wrong}: too many brackets within each other.") from None
    except ValueError as error:
        raise ConfigError(f"{path}: {wrong}: {str(error).rstrip('.')}.") from None
