"""The files that a run leaves: rounds.jsonl, summary.json and model.pt.

A reader never sees half a line of a finished round, nor half a summary: a line is appended in one
write and synced, the other files appear under their names only when they are complete.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fl_dp.errors import ConfigError
from fl_dp.reporting.reports import RoundReport, Summary, strict_json

if TYPE_CHECKING:
    import torch

ROUNDS = "rounds.jsonl"
SUMMARY = "summary.json"
MODEL = "model.pt"


class RunDirectory:
    """One run's directory; refuses (ConfigError) one that already holds a run's results."""

    def __init__(self, path: Path) -> None:
        for name in (ROUNDS, SUMMARY, MODEL):
            if (path / name).exists():
                raise ConfigError(
                    f"out = {str(path)!r}: already holds {name} of an earlier run; name another."
                )
        path.mkdir(parents=True, exist_ok=True)
        self.path = path

    def append_round(self, report: RoundReport) -> None:
        """Append one line to rounds.jsonl; it is on the disk when this returns."""
        append_line(self.path / ROUNDS, report.to_dict())

    def write_summary(self, summary: Summary) -> None:
        """Write summary.json, whole or not at all."""
        text = _dumps(summary.to_dict(), indent=2) + "\n"
        self._replace(SUMMARY, lambda path: path.write_text(text, encoding="utf-8"))

    def save_model(self, state: Mapping[str, "torch.Tensor"]) -> None:
        """Write model.pt, a state dict for `torch.load(..., weights_only=True)`."""
        import torch

        self._replace(MODEL, lambda path: torch.save(dict(state), path))

    def _replace(self, name: str, write: Callable[[Path], object]) -> None:
        unfinished = self.path / f".{name}.{os.getpid()}"
        write(unfinished)
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        unfinished.replace(self.path / name)


def append_line(path: Path, value: Mapping[str, Any]) -> None:
    """Append `value` as a line of JSON; it is on the disk when this returns."""
    with path.open("a", encoding="utf-8") as file:
        file.write(_dumps(value) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _dumps(value: Mapping[str, Any], indent: int | None = None) -> str:
    return json.dumps(strict_json(value), allow_nan=False, indent=indent)
