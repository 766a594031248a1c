"""The results file: one line of JSON for each trial; of several for one change the last counts."""

import json
from dataclasses import asdict
from pathlib import Path

from scripts.mutation.changes import Change
from scripts.mutation.trial import Trial


def append_trial(path: Path, change: Change, trial: Trial) -> None:
    """Append one line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({**asdict(change), **asdict(trial)}) + "\n")


def read_trials(path: Path) -> dict[tuple[str, ...], tuple[Change, Trial]]:
    """The last trial of each change, by `Change.key`; none while there is no file.

    A last line that was written in part, because the run was interrupted, is left out.
    """
    trials: dict[tuple[str, ...], tuple[Change, Trial]] = {}
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    for line in lines:
        fields = json.loads(line)
        change = Change(**{name: fields[name] for name in Change.__slots__})
        trials[change.key] = change, Trial(**{name: fields[name] for name in Trial.__slots__})
    return trials
