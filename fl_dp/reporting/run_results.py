"""Writes the results of a run: rounds.jsonl, summary.json and the model."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from fl_dp.durable_files import append_text, private_folder, write_whole
from fl_dp.errors import ConfigError
from fl_dp.reporting.report_json import dumps
from fl_dp.reporting.reports import RoundReport, Summary
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.statements import Stated

if TYPE_CHECKING:
    import torch


_OF_RESOLVED = """# The values that "auto" became. "auto" stays if clients differ (rounds.jsonl has
# each client's value), or if each machine decides for itself.
"""


class RunResults:
    """The results of one run in the folder `path`, which is made if needed.

    resumed: whether the run is resumed. If not, ConfigError for a folder that holds results.
    """

    def __init__(self, path: Path, *, resumed: bool = False) -> None:
        self.path = path
        self._folder = RunFolder(path)
        for file in (self._folder.rounds, *_written_at_the_end(self._folder)):
            if not resumed and file.exists():
                raise ConfigError(
                    f"out = {str(path)!r}: already holds {file.name} of an earlier run; name another folder."
                )
        private_folder(path)

    def go_on_after(self, last: RoundReport | None) -> None:
        """Delete summary, model and all lines of rounds.jsonl after `last`, so that the run can go on.

        last: the last finished round, or None. Its line is written again, as it may be incomplete or missing.
        ConfigError if an earlier line is missing.
        """
        forget_end(self._folder)
        rounds = last.round if last else 0
        file = self._folder.rounds
        lines = file.read_text(encoding="utf-8").splitlines()[: max(rounds - 1, 0)] if file.exists() else []
        if last is None:
            file.unlink(missing_ok=True)
            return
        if len(lines) < rounds - 1:
            raise ConfigError(f"{file}: holds {len(lines)} of {rounds} rounds; put it back as it was.")
        text = "".join(f"{line}\n" for line in (*lines, last.line))
        _write(file, text, secret=True)

    @property
    def config(self) -> Path:
        """The requested config, if a launch has written it."""
        return self._folder.config

    def write_resolved(self, flat: Mapping[str, Any]) -> None:
        """Write resolved.toml, a run config, atomically."""
        text = _OF_RESOLVED + tomli_w.dumps(flat)
        _write(self._folder.resolved, text)

    def append_round(self, line: str) -> None:
        """Append one line (`RoundReport.line`) to rounds.jsonl; it is on the disk when this returns."""
        append_text(self._folder.rounds, line + "\n")

    def write_summary(self, summary: Summary) -> None:
        """Write summary.json atomically."""
        text = dumps(summary.to_dict(), indent=2) + "\n"
        _write(self._folder.summary, text, secret=True)

    def save_model(
        self, state: Mapping[str, "torch.Tensor"], description: Mapping[str, Any], *, private: bool
    ) -> None:
        """Write model.json, and the model, a state dict for `torch.load(..., weights_only=True)`.

        description: of the model, as JSON. private: whether the run is.
        """
        text = dumps(description, indent=2) + "\n"
        _write(self._folder.description, text)
        _save(self._folder.model(private=private), state)

    def save_last_model(self, state: Mapping[str, "torch.Tensor"], *, private: bool) -> None:
        """Also write the last round's model, if the run's model is another one."""
        _save(self._folder.last_model(private=private), state)


def write_statements(folder: RunFolder, statements: Sequence[Stated]) -> None:
    """Write statements.json atomically."""
    text = json.dumps({"statements": [asdict(one) for one in statements]}, indent=2) + "\n"
    _write(folder.statements, text)


def _write(path: Path, text: str, *, secret: bool = False) -> None:
    write_whole(path, lambda file: file.write(text.encode()), secret=secret)


def _save(path: Path, state: Mapping[str, "torch.Tensor"]) -> None:
    import torch  # late: it takes a second, and a launch only deletes such files

    write_whole(path, lambda file: torch.save(dict(state), file))


def forget_end(folder: RunFolder) -> None:
    """Delete the files that the run wrote when it ended."""
    for file in _written_at_the_end(folder):
        file.unlink(missing_ok=True)


def _written_at_the_end(folder: RunFolder) -> tuple[Path, ...]:
    models = (
        named(private=private) for named in (folder.model, folder.last_model) for private in (True, False)
    )
    return folder.summary, folder.description, folder.statements, folder.local, folder.report, *models


def append_line(path: Path, value: Mapping[str, Any]) -> None:
    """Append `value` as a line of JSON; it is on the disk when this returns."""
    append_text(path, dumps(value) + "\n")
