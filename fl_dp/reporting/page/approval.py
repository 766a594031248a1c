"""What a person adds to a report: the purpose, who approves, and when."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from fl_dp.config.files import read_toml
from fl_dp.durable_files import write_whole
from fl_dp.errors import ConfigError
from fl_dp.reporting.page.clean import clean
from fl_dp.reporting.run_folder import RunFolder

MOST_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class Approval:
    """Empty: not said yet, so that the page has a line to fill in by hand. date: as it was written."""

    purpose: str = ""
    approver: str = ""
    date: str = ""


def approval_file(folder: RunFolder) -> Path:
    return folder.path / "approval.toml"


def read_approval(folder: RunFolder) -> Approval:
    """What approval.toml says; nothing where there is none. ConfigError where it says anything else."""
    path = approval_file(folder)
    if not path.exists():
        return Approval()
    found = read_toml(path)
    known = {field.name for field in dataclasses.fields(Approval)}
    wrong = sorted(key for key, value in found.items() if key not in known or not isinstance(value, str))
    if wrong:
        raise ConfigError(f"{path}: {clean(wrong[0])}: expected purpose, approver and date, as texts.")
    return Approval(**{key: clean(value, MOST_CHARACTERS) for key, value in found.items()})


def write_approval(
    folder: RunFolder, *, purpose: str | None = None, approver: str | None = None, date: str | None = None
) -> Approval:
    """Write what is given to approval.toml, whole or not at all; what is None stays as it was."""
    given = {"purpose": purpose, "approver": approver, "date": date}
    for key, value in given.items():
        if value is not None and len(value) > MOST_CHARACTERS:
            raise ConfigError(f"--{key}: has more than {MOST_CHARACTERS} characters; shorten it.")
    kept = dataclasses.asdict(read_approval(folder))
    kept |= {key: clean(value, MOST_CHARACTERS) for key, value in given.items() if value is not None}
    write_whole(approval_file(folder), lambda file: file.write(tomli_w.dumps(kept).encode()))
    return Approval(**kept)
