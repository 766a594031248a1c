"""A sweep as fixed before its first run: plan.json, which says everything and is never changed."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import tomli_w

from fl_dp.config.files import read_json
from fl_dp.config.flat import Scalar
from fl_dp.config.run import RunConfig
from fl_dp.durable_files import write_whole
from fl_dp.errors import ConfigError
from fl_dp.launch.sweep.costs import SweepCost
from fl_dp.launch.sweep.sweep_file import RequestedRun
from fl_dp.reporting.provenance import utc_now
from fl_dp.reporting.reports import strict_json
from fl_dp.reporting.run_folder import RunFolder

_FORMAT = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=+,~-]{0,199}")


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """name: of its folder. point: its combination of settings, which its siblings run with other seeds.

    settings: what the point sets, by key. config: the whole run config, flat.
    """

    name: str
    point: str
    seed: int
    settings: Mapping[str, Scalar]
    config: Mapping[str, Scalar]


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """public: nobody's privacy is at stake. ledger: the folder of the one ledger that all runs pay from,
    absolute; empty if each has its own. vary_mechanism: as in `SweepRequest`.
    epsilon, delta: forecast for all runs together; None: not finite.
    """

    runs: tuple[PlannedRun, ...]
    public: bool
    ledger: str
    vary_mechanism: bool
    epsilon: float | None
    delta: float
    fixed: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """The settings that differ between runs, in the order of the file."""
        return tuple(dict.fromkeys(key for run in self.runs for key in run.settings))

    def digest(self) -> str:
        """SHA-256 of what is fixed: the runs, their order and who pays."""
        what = {key: value for key, value in asdict(self).items() if key not in ("epsilon", "delta", "fixed")}
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()

    @classmethod
    def of(
        cls, runs: Sequence[RequestedRun], cost: SweepCost, *, public: bool, ledger: str, vary: bool
    ) -> Self:
        planned = tuple(
            PlannedRun(one.name, one.point, one.seed, one.settings, one.config.to_flat()) for one in runs
        )
        epsilon = strict_json(cost.epsilon)
        return cls(planned, public, ledger, vary, epsilon, cost.delta, utc_now())

    def write(self, folder: "SweepFolder") -> None:
        table = {"format": _FORMAT, "digest": self.digest(), **asdict(self)}
        text = json.dumps(table, indent=1, allow_nan=False) + "\n"
        write_whole(folder.plan, lambda file: file.write(text.encode()))

    @classmethod
    def read(cls, folder: "SweepFolder") -> Self:
        """Read plan.json; ConfigError if there is none, or if it was changed."""
        if not folder.plan.is_file():
            raise ConfigError(
                f"{folder.path}: holds no sweep; start one with: fl-dp sweep SWEEP.toml --out DIR."
            )
        found = read_json(folder.plan)
        try:
            number, digest = found.pop("format"), found.pop("digest")
            runs = tuple(PlannedRun(**one) for one in found.pop("runs"))
            plan = cls(runs=runs, **found)
            same = plan.digest() == digest
            named = all(_NAME.fullmatch(run.name) for run in runs)
        except (AttributeError, KeyError, TypeError):
            raise ConfigError(f"{folder.plan}: is damaged; restore it.") from None
        if not named:  # they name folders, one of which may be deleted
            raise ConfigError(f"{folder.plan}: is damaged: the name of a run is not a folder's name.")
        if number != _FORMAT:
            raise ConfigError(f"{folder.plan}: was written by another version of fl_dp (format {number}).")
        if not same:
            raise ConfigError(
                f"{folder.plan}: was changed after the sweep was fixed: its digest differs. What is tried "
                "must not depend on results; restore the file, or start another sweep."
            )
        return plan

    def check_same(self, other: "SweepPlan") -> None:
        """Raise ConfigError, saying what differs, unless `other` asks for the same sweep."""
        found = list(_differences(self, other))
        if found:
            more = f"; and {len(found) - 5} more" if len(found) > 5 else ""
            raise ConfigError(
                f"this sweep differs from the one that was fixed on {self.fixed}: "
                f"{'; '.join(found[:5])}{more}. What is tried must not depend on results: resume with "
                "--resume alone, or start another sweep with --out."
            )


def _differences(kept: SweepPlan, asked: SweepPlan) -> list[str]:
    for key in ("public", "ledger", "vary_mechanism"):
        if getattr(kept, key) != getattr(asked, key):
            return [f"{key.replace('_', '-')} is {getattr(asked, key)!r}, it was {getattr(kept, key)!r}"]
    before, now = ({run.name: run.config for run in plan.runs} for plan in (kept, asked))
    gone = [f"{name} is gone" for name in before if name not in now]
    new = [f"{name} is new" for name in now if name not in before]
    changed = [
        f"{name} has {key} = {now[name].get(key)!r}, it was {config.get(key)!r}"
        for name, config in before.items()
        if name in now
        for key in dict.fromkeys((*config, *now[name]))
        if config.get(key) != now[name].get(key)
    ]
    order = [] if gone or new or list(before) == list(now) else ["the runs are in another order"]
    return [*gone, *new, *changed, *order]


@dataclass(frozen=True, slots=True)
class SweepFolder:
    """The paths of a sweep's files. path: absolute."""

    path: Path

    @property
    def plan(self) -> Path:
        return self.path / "plan.json"

    @property
    def lock(self) -> Path:
        return self.path / ".lock"

    @property
    def csv(self) -> Path:
        return self.path / "results.csv"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def shown(self) -> Path:
        return RunFolder(self.path).shown

    def run(self, name: str) -> RunFolder:
        return RunFolder(self.path / "runs" / name)

    def config(self, name: str) -> Path:
        return self.path / "configs" / f"{name}.toml"

    def log(self, name: str) -> Path:
        """The file of the run's console output."""
        return self.path / "logs" / f"{name}.log"

    def write_configs(self, plan: SweepPlan) -> None:
        """Write a run config for each run, for `fl-dp run --config`."""
        (self.path / "configs").mkdir(exist_ok=True)
        for run in plan.runs:
            config = RunConfig.from_flat(run.config)
            table = {key: value for key, value in config.to_flat().items() if key != "out"}
            write_whole(self.config(run.name), lambda file, table=table: tomli_w.dump(table, file))  # type: ignore[misc]
