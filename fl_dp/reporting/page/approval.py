"""What people add to a report: the purpose, who approves and when, and what a record of processing needs."""

import dataclasses
import datetime
import re
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from fl_dp.clean_text import clean
from fl_dp.config.files import read_toml
from fl_dp.durable_files import write_whole
from fl_dp.errors import ConfigError
from fl_dp.reporting.run_folder import RunFolder

MOST_CHARACTERS = 2000
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, slots=True)
class Approval:
    """An empty field is not yet given; the page has a line to fill it in by hand. date: see `day`.

    operator: who runs server and sites; recipients: who gets the model; retention: how long it is kept;
    legal_basis: of the processing.
    """

    purpose: str = ""
    approver: str = ""
    date: str = ""
    operator: str = ""
    recipients: str = ""
    retention: str = ""
    legal_basis: str = ""


def _key(name: str) -> str:
    """The key of a field in approval.toml."""
    return name.replace("_", "-")


_KEYS = {_key(field.name): field.name for field in dataclasses.fields(Approval)}


def approval_file(folder: RunFolder) -> Path:
    return folder.path / "approval.toml"


def read_approval(folder: RunFolder) -> Approval:
    """Read approval.toml; empty if there is none. ConfigError if it says anything else."""
    path = approval_file(folder)
    if not path.exists():
        return Approval()
    found = read_toml(path)
    wrong = sorted(key for key, value in found.items() if key not in _KEYS or not isinstance(value, str))
    if wrong:
        raise ConfigError(f"{path}: {clean(wrong[0])}: expected {', '.join(_KEYS)}, as texts.")
    return Approval(**{_KEYS[key]: clean(value, MOST_CHARACTERS) for key, value in found.items()})


def day(text: str) -> datetime.date | None:
    """The day that a text names as year-month-day; None if there is no such day."""
    try:
        return datetime.date.fromisoformat(text) if _DAY.fullmatch(text) else None
    except ValueError:
        return None


def _check_date(text: str) -> None:
    """Raise ConfigError unless the date can be signed: a real day that has begun somewhere on earth."""
    found = day(text)
    if found is None:
        raise ConfigError(
            f"--date {clean(text)}: expected a day of the calendar as year-month-day, such as 2025-05-02."
        )
    if found > datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(days=1):
        raise ConfigError(f"--date {text}: lies in the future; name the day of the approval.")


def write_approval(folder: RunFolder, **given: str | None) -> Approval:
    """Write the given fields to approval.toml atomically; a field that is None stays as it was.

    given: fields of `Approval`. The file then has all of its keys, so that the rest can be filled in there.
    """
    if unknown := given.keys() - set(_KEYS.values()):
        raise TypeError(f"an approval has no field {', '.join(sorted(unknown))}")
    for name, value in given.items():
        key = _key(name)
        if value is not None and len(value) > MOST_CHARACTERS:
            raise ConfigError(f"--{key}: has more than {MOST_CHARACTERS} characters; shorten it.")
    if given.get("date"):
        _check_date(str(given["date"]))
    kept = dataclasses.asdict(read_approval(folder))
    kept |= {name: clean(value, MOST_CHARACTERS) for name, value in given.items() if value is not None}
    text = tomli_w.dumps({_key(name): value for name, value in kept.items()})
    write_whole(approval_file(folder), lambda file: file.write(text.encode()))
    return Approval(**kept)
