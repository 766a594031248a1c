"""What the files of one run say, while it goes on and when it is over.

Its folder may have been cut off, edited or copied in part. What is there has the type that the form of
`reports` says, or is a ConfigError. Texts come from clients, and are not cleaned.
"""

import dataclasses
import json
import types
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from fl_dp.config.files import DAMAGED, check_plain, no_constant, read_json
from fl_dp.durable_files import is_held
from fl_dp.errors import ConfigError
from fl_dp.records import Entry
from fl_dp.reporting.provenance import require_own, unreadable
from fl_dp.reporting.reports import OF_SOME, OVER, ClientRound, RoundReport, Summary
from fl_dp.reporting.run_folder import RunFolder

_LONGEST = 2**63  # a longer integer is none of ours, and may not fit a float
_UNIONS = (typing.Union, types.UnionType)
_NEEDED = {
    Summary: {"status"},
    RoundReport: {"clients", "metrics"},
    ClientRound: {"status"},
    Entry: {"sample_rate", "noise_multiplier", "steps"},
}  # everything that is read from them


class Run:
    """One run. Each question reads what the files say by now."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    def summary(self, *, whole: bool = False) -> dict[str, Any] | None:
        """summary.json; None without one. ConfigError, naming the file, if it is damaged or of another
        version.

        whole: a missing field also counts as damage; otherwise only the status is required.
        """
        path = self.folder.summary
        there = path.exists() or path.is_symlink()  # a link that leads nowhere is damage
        if not there:
            return None
        require_own(found := read_json(path), str(path))
        return _as(Summary, found, str(path), whole)

    @property
    def status(self) -> str:
        """ "completed", "budget-exhausted" or "failed"; empty while the run goes on."""
        return str((self.summary() or {}).get("status", ""))

    @property
    def is_over(self) -> bool:
        """Whether it has ended well, so that nothing is left to do."""
        return self.status in OVER

    @property
    def at_work(self) -> bool:
        """Whether a process works on the run. It holds a lock, which the system releases when it dies."""
        return any(is_held(lock) for lock in (self.folder.lock, self.folder.server_lock))

    def rounds(self, *, whole: bool = False) -> Iterator[dict[str, Any]]:
        """The reports of the rounds; none without a file. An incomplete last line is ignored.

        ConfigError, naming file and line, for other damage. whole: as in `summary`.
        """
        path = self.folder.rounds
        check_plain(path)
        try:
            with path.open(encoding="utf-8", newline="\n") as lines:
                for number, line in enumerate(lines, 1):
                    if line.endswith("\n"):
                        yield _round(line, f"{path}, line {number}", whole=whole)
        except FileNotFoundError:
            return
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: cannot be read ({type(error).__name__}).") from None


def _round(line: str, where: str, *, whole: bool) -> dict[str, Any]:
    """The report of one round from its line; ConfigError, naming `where`, for a damaged one."""
    try:
        found = json.loads(line, parse_constant=no_constant)
    except DAMAGED:
        raise ConfigError(f"{where}: is damaged.") from None
    return _as(RoundReport, found, where, whole)


def _as(kind: type, found: Any, where: str, whole: bool) -> dict[str, Any]:
    try:
        checked: dict[str, Any] = _checked(found, kind, "", whole)
    except ValueError as error:
        raise ConfigError(f"{where}: {unreadable(found, str(error))}") from None
    return checked


def _checked(found: Any, hint: Any, name: str, whole: bool) -> Any:
    """`found`, with defaults for what is not there; ValueError, with the place, for a wrong type."""
    if dataclasses.is_dataclass(hint):
        return _fields(found, hint, name, whole)
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in _UNIONS:
        (wanted,) = (part for part in parts if part is not type(None))
        return None if found is None else _checked(found, wanted, name, whole)
    if hint is float:  # JSON has neither NaN nor infinity: None stands for both
        fits = found is None or type(found) is float or (type(found) is int and abs(found) < _LONGEST)
    elif hint is int:
        fits = type(found) is int and _is_sane(found)
    elif origin is typing.Literal:
        fits = found in parts
    elif origin is tuple:
        fits = isinstance(found, list)
        if fits:
            return [_checked(one, parts[0], name, whole) for one in found]
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        fits = isinstance(found, dict)
        if fits:
            return {key: _checked(one, parts[1], name, whole) for key, one in found.items()}
    else:
        fits = hint is object or type(found) is hint
    if not fits:
        raise ValueError(f"{name or 'it'} has the wrong type")
    return found


def _fields(found: Any, kind: Any, name: str, whole: bool) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise ValueError(f"{name or 'it'} is not an object")
    made = dict(found)
    needed = _NEEDED.get(kind, ())
    for key, hint, plain, field in _plan(kind):
        if key in found and type(found[key]) in plain and _is_sane(found[key]):
            continue
        path = f"{name}.{key}" if name else key
        if key in found:
            made[key] = _checked(found[key], hint, path, whole)
        elif (whole and key not in OF_SOME) or key in needed:  # which are never written elsewhere
            made[key] = _default(field, path)
    return made


def _is_sane(found: Any) -> bool:
    """False for an integer that is longer than any of ours."""
    return type(found) is not int or abs(found) < _LONGEST


@cache
def _plan(kind: Any) -> list[tuple[str, Any, frozenset[type], Any]]:
    """For each field: name, hint, the types whose every value fits, and the field. Called very often."""
    hints = typing.get_type_hints(kind)
    # which is written as an object, by name
    hints |= {"reported": Mapping[str, object]} if "reported" in hints else {}
    fields = dataclasses.fields(kind)
    return [(one.name, hints[one.name], _plain_types(hints[one.name]), one) for one in fields]


def _plain_types(hint: Any) -> frozenset[type]:
    if hint in (float, float | None):
        return frozenset({float, type(None)})
    return frozenset({hint}) if hint in (str, int, bool) else frozenset()


def _default(field: Any, path: str) -> Any:
    """The default for a field that is not there; ValueError if it has none."""
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is dataclasses.MISSING:
        raise ValueError(f"{path} is missing")
    return field.default_factory()
