"""Where a launch keeps its files, and the claim to a folder that no other run uses."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fl_dp.durable_files import append_text, write_whole
from fl_dp.errors import ConfigError
from fl_dp.reporting.reports import RoundReport, Summary, strict_json

if TYPE_CHECKING:
    import torch

SERVER_LOG = "server"


@dataclass(frozen=True)
class Layout:
    """The files of one run below its folder `out`, an absolute path."""

    out: Path

    @property
    def shown(self) -> Path:
        """`out` as a person would type it here."""
        return self.out.relative_to(Path.cwd()) if self.out.is_relative_to(Path.cwd()) else self.out

    @property
    def config(self) -> Path:
        return self.out / "config.toml"

    @property
    def launch(self) -> Path:
        return self.out / "launch.toml"

    @property
    def lock(self) -> Path:
        return self.out / ".lock"

    @property
    def rounds(self) -> Path:
        return self.out / ROUNDS

    @property
    def summary(self) -> Path:
        return self.out / SUMMARY

    @property
    def clients(self) -> Path:
        return self.out / "clients"

    @property
    def ledgers(self) -> Path:
        return self.out / "ledgers"

    @property
    def flower_home(self) -> Path:
        return self.out / "flower"

    @property
    def commands(self) -> Path:
        return self.out / "flower" / "bin"

    def log(self, name: str) -> Path:
        return self.out / "logs" / f"{name}.log"


def claim_folder(out: Path | None, runs: Path = Path("runs")) -> Layout:
    """Make the folder `out`, or, if None, a new one named by the time below `runs`.

    ConfigError when `out` already holds a run: its files would be mixed with this run's.
    """
    layout = Layout((_new_folder(runs) if out is None else out).absolute())
    try:
        layout.out.mkdir(parents=True, exist_ok=True)
        layout.config.open("x").close()  # only one of two launches at once gets this far
    except FileExistsError:
        raise ConfigError(f"--out {out}: already holds a run, or is a file; name another folder.") from None
    except OSError as error:
        raise ConfigError(f"--out {out}: cannot be written: {error.strerror}.") from None
    layout.log("x").parent.mkdir(exist_ok=True)
    return layout


def _new_folder(runs: Path) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    number = 1
    while True:
        folder = runs / (stamp if number == 1 else f"{stamp}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return folder


ROUNDS = "rounds.jsonl"
SUMMARY = "summary.json"
MODEL = "model.pt"
MODEL_NOT_PRIVATE = "model-NOT-PRIVATE.pt"


class RunDirectory:
    """One run's directory; unless `resumed`, one that already holds a run's results is a ConfigError."""

    def __init__(self, path: Path, *, resumed: bool = False) -> None:
        for name in (ROUNDS, SUMMARY, MODEL, MODEL_NOT_PRIVATE):
            if not resumed and (path / name).exists():
                raise ConfigError(
                    f"out = {str(path)!r}: already holds {name} of an earlier run; name another."
                )
        path.mkdir(parents=True, exist_ok=True)
        self.path = path

    def go_on_after(self, rounds: int, last: str) -> None:
        """Undo how the run ended: no summary, no model, and in rounds.jsonl the lines of `rounds` rounds.

        last: the line of the last of them, which may have been written in part or not at all. ConfigError
        when one before it is not there.
        """
        forget_end(self.path)
        file = self.path / ROUNDS
        lines = file.read_text(encoding="utf-8").splitlines()[: max(rounds - 1, 0)] if file.exists() else []
        if rounds == 0:
            file.unlink(missing_ok=True)
            return
        if len(lines) < rounds - 1:
            raise ConfigError(f"{file}: holds {len(lines)} of {rounds} rounds; put it back as it was.")
        text = "".join(f"{line}\n" for line in (*lines, last))
        write_whole(file, lambda opened: opened.write(text.encode()))

    def append_round(self, line: str) -> None:
        """Append one line, of `to_line`, to rounds.jsonl; it is on the disk when this returns."""
        append_text(self.path / ROUNDS, line + "\n")

    def write_summary(self, summary: Summary) -> None:
        """Write summary.json, whole or not at all."""
        text = _dumps(summary.to_dict(), indent=2) + "\n"
        write_whole(self.path / SUMMARY, lambda file: file.write(text.encode()))

    def save_model(self, state: Mapping[str, "torch.Tensor"], *, private: bool) -> None:
        """Write the model, a state dict for `torch.load(..., weights_only=True)`.

        private: whether the run is; if not, the file's name says so.
        """
        import torch

        name = MODEL if private else MODEL_NOT_PRIVATE
        write_whole(self.path / name, lambda file: torch.save(dict(state), file))


def forget_end(path: Path) -> None:
    """Take away what the run in the folder `path` left when it was over."""
    for name in (SUMMARY, MODEL, MODEL_NOT_PRIVATE):
        (path / name).unlink(missing_ok=True)


def to_line(report: RoundReport) -> str:
    """The report as a line of rounds.jsonl, without its end."""
    return _dumps(report.to_dict())


def append_line(path: Path, value: Mapping[str, Any]) -> None:
    """Append `value` as a line of JSON; it is on the disk when this returns."""
    append_text(path, _dumps(value) + "\n")


def _dumps(value: Mapping[str, Any], indent: int | None = None) -> str:
    try:
        return json.dumps(value, allow_nan=False, indent=indent)
    except ValueError:  # a number that JSON has not; to look through all of them first takes longer
        return json.dumps(strict_json(value), allow_nan=False, indent=indent)
