"""Sends a run's numbers to the trackers that its operator named. A failing tracker ends no run.

A tracker is a program that shows such numbers; each has a file in `trackers/`.
"""

import json
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from fl_dp.choices import TRACKERS
from fl_dp.clean_text import one_line
from fl_dp.config.files import read_json
from fl_dp.config.flat import Scalar
from fl_dp.config.run import PATHS, RunConfig
from fl_dp.durable_files import private_folder, write_whole
from fl_dp.errors import ConfigError
from fl_dp.optional import require_package
from fl_dp.records import CLIENT_STATUSES
from fl_dp.reporting.reports import RoundReport
from fl_dp.reporting.run_files import Run
from fl_dp.reporting.run_folder import RunFolder

_MOST_BYTES = 120  # of a metric's name
# Settings that name paths or people of this machine, not what is done.
_NOT_TOLD = {*PATHS, "data-name", "columns", "track", "device"}


class TrackedRun(Protocol):
    """One run, opened by a tracker."""

    def log(self, server_round: int, numbers: Mapping[str, float]) -> None:
        """Write the numbers of one round, to the disk or to the tracker's process."""

    def close(self) -> None:
        """Nothing more will come, unless the run is resumed."""


@dataclass(frozen=True, slots=True)
class Tracker:
    """A tracker. package: must be importable. open: begins or continues a run.

    open(folder, settings): `folder` belongs to the tracker, exists, and holds what it wrote before a resume;
    `settings` are the run's. Errors of the package are not caught.
    """

    package: str
    open: Callable[[Path, Mapping[str, Scalar]], TrackedRun]


def told_settings(flat: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The run config without paths of this machine. Of data and model only the kind is kept."""
    told = {key: value for key, value in flat.items() if key not in _NOT_TOLD and value != ""}
    names = {key: str(flat.get(key, "")).partition(":")[0] for key in ("data", "model")}
    return told | {key: name for key, name in names.items() if name and "/" not in name and ".py" not in name}


def numbers_of(report: RoundReport) -> dict[str, float]:
    """The numbers of a round, without those that were not measured or are not finite."""
    states = [client.status for client in report.clients.values()]
    spread = report.federation
    spent = {
        "epsilon": report.epsilon,
        "delta": report.delta,
        "epsilon-largest": spread.largest,
        "epsilon-median": spread.median,
        "epsilon-least": spread.least,
    }
    found = {
        **{f"privacy/{name}": value for name, value in spent.items() if report.private},
        "privacy/noise-multiplier": report.noise_multiplier,
        "model/loss": report.loss,
        "model/accuracy": report.accuracy,
        **{f"model/{name}": value for name, value in _by_known_name(report.metrics).items()},
        **{f"clients/{status}": states.count(status) for status in CLIENT_STATUSES},
        "round/seconds": report.seconds,
        "round/lost": bool(report.lost),
    }
    return {
        name: float(value)
        for name, value in found.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }


def _by_known_name(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics by names that trackers accept. If two names become equal, a digest tells them apart."""
    times = Counter(map(_name, metrics))
    return {
        _name(name) if times[_name(name)] == 1 else f"{_name(name)}-{_digest(name)}": value
        for name, value in metrics.items()
    }


def _digest(metric: str) -> str:
    return sha256(metric.encode(errors="replace")).hexdigest()[:8]


def _name(metric: str) -> str:
    """A name that trackers accept: letters, digits and a few signs. A user's task may use any name.

    Some trackers use it as a file name: so it names no folder, and is not too long for a file.
    """
    known = "".join(c if c.isalnum() or c in "-_. " else "-" for c in metric)
    if len(known.encode()) > _MOST_BYTES:
        start = known.encode()[:_MOST_BYTES].decode(errors="ignore")
        known = f"{start}-{_digest(metric)}"
    return f"-{known[1:]}" if known[:1] in ("", ".") else known


logger = logging.getLogger("fl_dp")
Say = Callable[[str], None]

KEPT = "tracked.json"  # the last round sent to each tracker


def check_trackers(names: Sequence[str]) -> None:
    """Raise ConfigError for a tracker that is not installed, with the command that installs it."""
    for name in names:
        require_package(TRACKERS.load(name, Tracker).package, f"track = {name!r}")


class RunTrackers:
    """The trackers of one run. say: prints when one of them fails."""

    def __init__(self, names: Sequence[str], folder: RunFolder, flat: Mapping[str, Scalar], say: Say) -> None:
        self._folder, self._say = folder, say
        for place in (folder.tracked, *(folder.tracked / name for name in names)):
            _check_own(place)
        self._kept = _read_kept(folder.tracked / KEPT)
        self._resumed = bool(self._kept)
        self._failed: dict[str, str] = {}
        self._runs: dict[str, TrackedRun] = {}
        for name in names:
            self._open(name, told_settings(flat))

    def round_over(self, report: RoundReport) -> None:
        """Send each tracker the round, and earlier ones that it has not received."""
        if any(self._kept[name] < report.round - 1 for name in self._runs):
            self._catch_up()
        self._tell(report)

    def _catch_up(self) -> None:
        """Send the rounds that a resumed run had written before they could be sent."""
        with suppress(ConfigError):  # a damaged line ends no run
            for report in Run(self._folder).rounds():
                self._tell(report)

    def _tell(self, report: RoundReport) -> None:
        server_round, numbers = report.round, numbers_of(report)
        for name, run in list(self._runs.items()):
            if server_round > self._kept[name]:
                self._try(name, lambda run=run: run.log(server_round, numbers))  # type: ignore[misc]
                if name in self._runs:
                    self._kept[name] = server_round
        if self._runs:
            self._keep()

    def close(self) -> None:
        """Close all runs; repeat which trackers have failed."""
        if self._resumed:
            self._catch_up()  # there may have been no further round
        for name, run in list(self._runs.items()):
            self._try(name, run.close)
        for name, words in self._failed.items():
            last = self._kept.get(name, 0)
            self._say(f"tracking is incomplete: {name} failed after round {last}: {words}")
        for name in self._runs:
            self._say(f"tracked by {name} in {self._folder.shown / self._folder.tracked.name / name}")

    def _open(self, name: str, settings: Mapping[str, Scalar]) -> None:
        self._kept.setdefault(name, 0)

        def begin() -> None:
            place = private_folder(self._folder.tracked / name)
            self._runs[name] = TRACKERS.load(name, Tracker).open(place, settings)

        self._try(name, begin)
        self._keep()

    def _try(self, name: str, work: Callable[[], None]) -> None:
        """Print and log what the tracker raises, and send it nothing more."""
        try:
            work()
        except Exception as error:
            self._runs.pop(name, None)
            self._failed[name] = one_line(f"{type(error).__name__}: {error}")
            logger.exception("the tracker %s failed", name)
            self._say(f"the tracker {name} failed, and the run goes on without it: {self._failed[name]}")

    def _keep(self) -> None:
        text = json.dumps(self._kept)
        write_whole(private_folder(self._folder.tracked) / KEPT, lambda file: file.write(text.encode()))


@contextmanager
def tracking(config: RunConfig, folder: RunFolder, say: Say) -> Iterator[RunTrackers]:
    """The run's trackers while it goes on; none if none is named."""
    trackers = RunTrackers(config.track_names, folder, config.to_flat(), say)
    try:
        yield trackers
    finally:
        trackers.close()


def _read_kept(path: Path) -> dict[str, int]:
    """The last round sent to each tracker by earlier launches of the run. ConfigError if it is damaged."""
    if not path.exists():
        return {}
    found = read_json(path)
    if not isinstance(found, dict) or not all(
        type(one) is int and 0 <= one < 2**53 for one in found.values()
    ):
        raise ConfigError(f"{path}: is damaged; delete {path.parent} to track the run from the start.")
    return found


def _check_own(folder: Path) -> None:
    """Raise ConfigError for a link: resuming the run of somebody else would write elsewhere."""
    if folder.is_symlink():
        raise ConfigError(f"{folder}: is a link; delete it, so that the run is tracked in its own folder.")
