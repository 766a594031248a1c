"""What people add to a report: purpose, approval, and what a record of processing needs."""

import dataclasses
import datetime
import re
from dataclasses import dataclass

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
    """An empty field was not given: the page has a line to fill it in by hand. date: see `day`.

    operator: who runs server and sites. recipients: who gets the model. retention: how long it is kept.
    legal_basis: of the processing. approval.toml has - for _ in the names.
    """

    purpose: str = ""
    approver: str = ""
    date: str = ""
    operator: str = ""
    recipients: str = ""
    retention: str = ""
    legal_basis: str = ""


_KEYS = {field.name.replace("_", "-"): field.name for field in dataclasses.fields(Approval)}


def read_approval(folder: RunFolder) -> Approval:
    """Read approval.toml; empty if there is none. ConfigError if it holds anything else."""
    path = folder.approval
    if not path.exists():
        return Approval()
    found = read_toml(path)
    wrong = sorted(key for key, value in found.items() if key not in _KEYS or not isinstance(value, str))
    if wrong:
        raise ConfigError(f"{path}: {clean(wrong[0])}: expected {', '.join(_KEYS)}, as texts.")
    return Approval(**{_KEYS[key]: clean(value, MOST_CHARACTERS) for key, value in found.items()})


def day(text: str) -> datetime.date | None:
    """The day that the text names as year-month-day; None if there is no such day."""
    try:
        return datetime.date.fromisoformat(text) if _DAY.fullmatch(text) else None
    except ValueError:
        return None


def _check_date(text: str) -> None:
    """Raise ConfigError unless the date is a real day that has begun somewhere on earth."""
    found = day(text)
    if found is None:
        raise ConfigError(
            f"--date {clean(text)}: expected a day of the calendar as year-month-day, such as 2025-05-02."
        )
    if found > datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(days=1):
        raise ConfigError(f"--date {text}: lies in the future; name the day of the approval.")


def write_approval(folder: RunFolder, **given: str | None) -> None:
    """Write the given fields of `Approval` to approval.toml, atomically; None leaves a field as it was.

    The file then has all keys, so that the rest can be filled in there.
    """
    said = {name: value for name, value in given.items() if value is not None}
    for name, value in said.items():
        if len(value) > MOST_CHARACTERS:
            key = name.replace("_", "-")
            raise ConfigError(f"--{key}: has more than {MOST_CHARACTERS} characters; shorten it.")
    if said.get("date"):
        _check_date(said["date"])
    cleaned = {name: clean(value, MOST_CHARACTERS) for name, value in said.items()}
    approval = dataclasses.replace(read_approval(folder), **cleaned)
    text = tomli_w.dumps({key: getattr(approval, name) for key, name in _KEYS.items()})
    write_whole(folder.approval, lambda file: file.write(text.encode()))
