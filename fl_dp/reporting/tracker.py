"""What a run's numbers are also written for: a tracker, and what it is told of a round."""

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
# Settings that name places or people of this machine, not what is done.
_NOT_TOLD = frozenset({
    "out", "data", "data-root", "data-name", "schema", "columns", "task", "model", "start", "strategy",
    "tokenizer", "track", "device",
})  # fmt: skip


class TrackedRun(Protocol):
    """One run as a tracker has it open."""

    @property
    def key(self) -> str:
        """By what the tracker knows the run again; empty where its folder is enough."""

    def log(self, server_round: int, numbers: Mapping[str, float]) -> None:
        """Write the numbers of one round; they are on the disk, or with the tracker's process, afterwards."""

    def close(self, *, completed: bool) -> None:
        """Nothing more will come. completed: else the run has failed, and may go on one day."""


@dataclass(frozen=True, slots=True)
class Tracker:
    """A tracker. package: that must be importable. open: begins or goes on with a run.

    open(folder, settings, key): `folder` is its own, and there; `settings` are the run's; `key` is
    that of the run that goes on, empty for a new one. It raises what its package raises.
    """

    package: str
    open: Callable[[Path, Mapping[str, Scalar], str], TrackedRun]


def told_settings(flat: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The run config, without paths of this machine. Of a choice with a path its name is told."""
    told = {key: value for key, value in flat.items() if key not in _NOT_TOLD and value != ""}
    names = {key: str(flat.get(key, "")).partition(":")[0] for key in ("data", "model")}
    return told | {key: name for key, name in names.items() if name and "/" not in name and ".py" not in name}


def numbers_of(record: Mapping[str, Any]) -> dict[str, float]:
    """What a round's record says in numbers; what was not measured, or is not finite, is left out."""
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
    """By names that trackers take. Metrics whose names become one are told apart by their names' digests."""
    times = Counter(map(_name, metrics))
    return {
        _name(name) if times[_name(name)] == 1 else f"{_name(name)}-{_digest(name)}": value
        for name, value in metrics.items()
    }


def _digest(metric: str) -> str:
    return sha256(metric.encode(errors="replace")).hexdigest()[:8]


def _name(metric: str) -> str:
    """A metric of a task of one's own may have any name; trackers know letters, digits and a few signs.

    A name is a file's at some of them: never one that means a folder, nor longer than a file's may be.
    """
    known = "".join(c if c.isalnum() or c in "-_. " else "-" for c in metric)
    if len(known.encode()) > _MOST_BYTES:
        start = known.encode()[:_MOST_BYTES].decode(errors="ignore")
        known = f"{start}-{_digest(metric)}"
    return f"-{known[1:]}" if known[:1] in ("", ".") else known
