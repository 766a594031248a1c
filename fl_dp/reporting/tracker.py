"""Experiment trackers: a program that also receives a run's numbers, and what it is given for a round."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from fl_dp.config.flat import Scalar
from fl_dp.records import CLIENT_STATUSES

_MOST_BYTES = 120  # of a metric's name
# Settings that name paths or people of this machine, not what is done.
_NOT_TOLD = frozenset({
    "out", "data", "data-root", "data-name", "schema", "columns", "task", "model", "start", "strategy",
    "tokenizer", "track", "device",
})  # fmt: skip


class TrackedRun(Protocol):
    """One run, opened by a tracker."""

    @property
    def key(self) -> str:
        """The tracker's id for the run; empty if its folder is enough."""

    def log(self, server_round: int, numbers: Mapping[str, float]) -> None:
        """Write the numbers of one round; they are then on the disk, or with the tracker's process."""

    def close(self, *, completed: bool) -> None:
        """Nothing more will come. completed: False if the run has failed, and may be resumed."""


@dataclass(frozen=True, slots=True)
class Tracker:
    """A tracker. package: must be importable. open: begins or continues a run.

    open(folder, settings, key): `folder` is its own, and exists; `settings` are the run's; `key` is that of
    the continued run, empty for a new one. It raises what its package raises.
    """

    package: str
    open: Callable[[Path, Mapping[str, Scalar], str], TrackedRun]


def told_settings(flat: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The run config, without paths of this machine. A choice given by a path is reported by name."""
    told = {key: value for key, value in flat.items() if key not in _NOT_TOLD and value != ""}
    names = {key: str(flat.get(key, "")).partition(":")[0] for key in ("data", "model")}
    return told | {key: name for key, name in names.items() if name and "/" not in name and ".py" not in name}


def numbers_of(record: Mapping[str, Any]) -> dict[str, float]:
    """The numbers in a round's record; what was not measured, or is not finite, is left out."""
    states = [client["status"] for client in record["clients"].values()]
    spread = record["federation"] if record["private"] else {}
    found = {
        "privacy/epsilon": record["epsilon"] if record["private"] else None,
        "privacy/delta": record["delta"] if record["private"] else None,
        **{f"privacy/epsilon-{name}": spread.get(name) for name in ("largest", "median", "least")},
        "privacy/noise-multiplier": record["noise_multiplier"],
        "model/loss": record["loss"],
        "model/accuracy": record["accuracy"],
        **{f"model/{name}": value for name, value in _by_known_name(record["metrics"]).items()},
        **{f"clients/{status}": states.count(status) for status in CLIENT_STATUSES},
        "round/seconds": record["seconds"],
        "round/lost": bool(record["lost"]),
    }
    return {
        name: float(value)
        for name, value in found.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }


def _by_known_name(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics under names that trackers accept. If two names become equal, a digest tells them apart."""
    times = Counter(map(_name, metrics))
    return {
        _name(name) if times[_name(name)] == 1 else f"{_name(name)}-{_digest(name)}": value
        for name, value in metrics.items()
    }


def _digest(metric: str) -> str:
    return sha256(metric.encode(errors="replace")).hexdigest()[:8]


def _name(metric: str) -> str:
    """A name that trackers accept: letters, digits and a few signs. A user's own task may use any name.

    Some trackers use it as a file name: it never means a folder, and is never too long for a file.
    """
    known = "".join(c if c.isalnum() or c in "-_. " else "-" for c in metric)
    if len(known.encode()) > _MOST_BYTES:
        start = known.encode()[:_MOST_BYTES].decode(errors="ignore")
        known = f"{start}-{_digest(metric)}"
    return f"-{known[1:]}" if known[:1] in ("", ".") else known
