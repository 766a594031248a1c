"""`fl_dp.study`: every combination of some settings, with every seed, and one table of the runs."""

import hashlib
import itertools
import math
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fl_dp.api.given import Data, Records, named_data
from fl_dp.api.result import Result, load_run
from fl_dp.api.results import LOCAL, TAKEN, Point, Results, local_figures, results_of
from fl_dp.api.simulate import as_config, asked, nothing, simulated
from fl_dp.choices import METRICS
from fl_dp.config.data import CLIENT
from fl_dp.config.run import MAY_CHANGE, PATHS, RunConfig
from fl_dp.data.source import TEST
from fl_dp.durable_files import write_whole
from fl_dp.errors import ConfigError, FlDpError
from fl_dp.federation.client.registration import is_public
from fl_dp.launch.check import check_run, mistakes_in
from fl_dp.launch.launcher import resume
from fl_dp.launch.progress_reporter import reporting_progress
from fl_dp.launch.request import Engine, RunRequest
from fl_dp.launch.resumption import Launch
from fl_dp.launch.session import session
from fl_dp.optional import require_package
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.reports import NOT_PRIVATE, of_one_class
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.wording import rough_duration, some
from fl_dp.tasks.identity import code_identity
from fl_dp.tasks.load import task_of
from fl_dp.tasks.task import Task

Axis = Sequence[Any] | Mapping[str, Mapping[str, Any]]
ENGINE: Engine = "ray"
_ONE_WAY = (
    "ledger: the data keep one sample rate and one noise multiplier; vary only settings that change "
    "neither, and give noise_multiplier."
)
_SHOWN = 3  # metrics in the line of a run
_ELSEWHERE = {*PATHS, *MAY_CHANGE}  # places, and what changes no number
_FILES = ("data", "start", "schema", "tokenizer", "strategy")
_DIGEST = "files.sha256"  # in a run's folder


def study(
    config: str | Path | RunConfig | None = None,
    *,
    vary: Mapping[str, Axis],
    out: str | Path,
    seeds: Sequence[int] = (0,),
    data: Data | None = None,
    test_data: Records | None = None,
    task: str | type[Task] = "",
    ledger: str | Path | None = None,
    quiet: bool = False,
    **settings: Any,
) -> Results:
    """Simulate every combination of what is varied, with every seed, within one session.

    All mistakes in all settings are reported before the first run starts. A finished run is not repeated, and
    an interrupted one is resumed. With records or a task in memory it starts again; what it had cost is then
    counted only with `ledger`. Equal seeds have equal splits, first weights and cohorts, so that settings can
    be compared seed by seed. Which records `test` holds out is each ledger's own secret: from a client with
    few records it can hold out all, which ends the run.

    Args:
        config: As in `fl_dp.simulate`, like `data`, `test_data`, `task` and `settings`.
        vary: By name, either a key's values, or settings by a label of yours:
            `{"method": {"FedAvg": {}, "FedProx": {"local_algorithm": "fedprox:0.1"}}, "epsilon": [1, 8]}`.
            These replace what `settings` says. With `privacy` "off" a point runs once, not at each epsilon.
        out: The folder that gets a folder for each run.
        seeds: Seeds of the splits, the first weights and the cohorts; never of noise.
        data: As in `fl_dp.simulate`.
        test_data: As there.
        task: As there.
        ledger: The folder of one lasting ledger, from which all runs pay; private data need it.
        quiet: Print nothing.
        settings: As in `fl_dp.simulate`; the same for all runs.

    Returns:
        Tables of the runs and rounds, a plot, and the epsilon of all runs together.

    Raises:
        ConfigError: All mistakes in the settings.
        FlDpError: A run failed, and why; the runs before it are kept.
        KeyboardInterrupt: Ctrl-C. The same call continues.

    Example:
        >>> import fl_dp
        >>> found = fl_dp.study(
        ...     vary={"epsilon": [1, 8]}, seeds=[0, 1], out="runs/study", data="digits", rounds=1, quiet=True
        ... )
        >>> found.runs[["budget", "seed"]].values.tolist()
        [[1, 0], [8, 0], [1, 1], [8, 1]]
        >>> bool((found.runs["epsilon"] <= found.runs["budget"]).all())
        True
    """
    require_package("pandas", "study()")
    if isinstance(seeds, int):
        raise ConfigError(f"seeds = {seeds}: expected a list; write range({seeds}) for that many.")
    base = as_config(config)
    place = None if ledger is None else Path(ledger).expanduser().absolute()
    with named_data(data, test_data, settings, base, task) as named, session():
        in_memory = isinstance(task, type) or not (data is None or isinstance(data, str))
        runs = _Runs(base, task, named, Path(out).expanduser().absolute(), place, quiet, in_memory)
        order = [(point, seed) for seed in seeds for point in points_of(vary)]
        done = runs.done(order)
        try:
            runs.check(order, [one for one in order if _folder_name(*one) not in done])
        except KeyboardInterrupt:
            raise KeyboardInterrupt("stopped while checking the settings; no run was started") from None
        found = list(runs.all(order, done))
    return results_of(order, found)


def points_of(vary: Mapping[str, Axis]) -> list[Point]:
    """Every combination; ConfigError for an axis without values, and for a key that two of them set."""
    axes = [_axis(name, values) for name, values in vary.items()]
    points = []
    for chosen in itertools.product(*axes):
        keys = Counter(key for _, _, settings in chosen for key in settings)
        if twice := [key for key, count in keys.items() if count > 1]:
            raise ConfigError(f"vary: {', '.join(twice)} is set by more than one of {', '.join(vary)}.")
        labels = {name: label for name, label, _ in chosen}
        settings = {key: one for _, _, each in chosen for key, one in each.items()}
        if settings.get("privacy") == "off" and settings.get("epsilon", math.nan) == labels.get("epsilon"):
            labels["epsilon"] = None  # it changes nothing: one run is enough
            settings.pop("epsilon")
        point = Point(labels, settings)
        if labels.get("epsilon", 0) is not None or point not in points:
            points.append(point)
    return points


def _axis(name: str, values: Axis) -> list[tuple[str, Any, Mapping[str, Any]]]:
    if name in TAKEN or name in METRICS.names():
        raise ConfigError(f"vary: {name}: the table has a column of this name; use another.")
    wanted = "expected a list of values, or settings by label, such as {'FedAvg': {}}"
    if isinstance(values, Mapping):
        if not values or not all(isinstance(one, Mapping) for one in values.values()):
            raise ConfigError(f"vary: {name} = {values!r:.80}: {wanted}.")
        return [(name, label, settings) for label, settings in values.items()]
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise ConfigError(f"vary: {name} = {values!r:.80}: {wanted}.")
    return [(name, value, {name: value}) for value in values]


@dataclass(frozen=True, slots=True)
class _Runs:
    """in_memory: whether another process cannot resume a run, as it has no file of the task or records."""

    base: RunConfig
    task: str | type[Task]
    named: Mapping[str, Any]
    out: Path
    ledger: Path | None
    quiet: bool
    in_memory: bool

    def request(self, point: Point, seed: int) -> RunRequest:
        return asked(self.base, self.task, {**self.named, **point.settings, "seed": seed})

    def done(self, order: Sequence[tuple[Point, int]]) -> dict[str, Result]:
        """The finished runs, by folder. ConfigError for a folder of another run, or of two of these."""
        named = Counter(_folder_name(*one) for one in order)
        if not order or len(named) < len(order):
            twice = next((name for name, count in named.items() if count > 1), "none is given")
            raise ConfigError(f"vary, seeds: expected at least one value, none of them twice: {twice}.")
        found = {_folder_name(*one): self._done(*one) for one in order}
        return {name: result for name, result in found.items() if result is not None}

    def check(self, order: Sequence[tuple[Point, int]], pending: Sequence[tuple[Point, int]]) -> None:
        """ConfigError with all mistakes in the settings of pending runs, each once, with their settings."""
        found: dict[str, list[str]] = {}
        ways: dict[str, Any] = {}
        for point, seed in pending:
            for problem in self._problems(point, seed, order, ways):
                found.setdefault(problem, []).append(str(point))
        if found:
            whose = {problem: some(list(dict.fromkeys(points))) for problem, points in found.items()}
            raise ConfigError("\n".join(f"{points}: {problem}" for problem, points in whose.items()))

    def _problems(
        self, point: Point, seed: int, order: Sequence[tuple[Point, int]], ways: dict[str, Any]
    ) -> Sequence[str]:
        """All mistakes for the first seed; for other seeds only what the settings themselves forbid.

        ways: rates and noises by data set; this run's are added.
        """
        if "seed" in {**self.named, **point.settings}:
            return ["seed: give seeds=, such as seeds=[0, 1]: each setting runs with each."]
        first = order[0][1]
        try:
            request = self.request(point, seed)
            config = request.config
            if seed != first:
                return []
            if not (config.public_data or is_public(config)) and (self.ledger is None or not config.private):
                return [f"{config.data} is private: runs need privacy, and one lasting ledger (ledger=)."]
            if self.ledger is None:
                return mistakes_in(request, engine=ENGINE)
            if not config.by_client and order[-1][1] != first:
                return ["ledger: it refuses records that another seed splits differently; give one seed."]
            checked = check_run(request, engine=ENGINE, ledger=self.ledger)
            if checked.forecast:
                way = [(one.sample_rate, one.noise_multiplier) for one in checked.forecast.mechanisms]
                if not way:  # an earlier run has fixed another noise, or has spent the budget
                    return [*checked.problems, f"ledger: {checked.forecast.clients[0].record.reason}"]
                if ways.setdefault(config.data, way) != way:
                    return [*checked.problems, _ONE_WAY]
            return checked.problems
        except FlDpError as error:
            return [str(error)]

    def all(self, order: Sequence[tuple[Point, int]], done: Mapping[str, Result]) -> Iterator[Result]:
        """The runs in this order: those that are done already, and new ones."""
        took: list[float] = []
        for number, (point, seed) in enumerate(order, 1):
            folder, request = self.out / _folder_name(point, seed), self.request(point, seed)
            result = done.get(_folder_name(point, seed))
            if result is None:
                where = f"run {number} of {len(order)}: {point}, seed = {seed}"
                self.say(f"{where}{_left(took, len(order) - number + 1)}")
                started = time.monotonic()
                try:
                    result = self._run(folder, request)
                except KeyboardInterrupt:
                    words = f"stopped in {where}; the same call continues from there"
                    raise KeyboardInterrupt(words) from None
                took.append(time.monotonic() - started)
                self.say(f"  {_in_words(result, took[-1])}")
            yield result

    def _done(self, point: Point, seed: int) -> Result | None:
        """The finished run of these; None if there is none. ConfigError if its folder has another run."""
        folder = self.out / _folder_name(point, seed)
        if not RunFolder(folder).launch.exists():
            return None
        config = self.request(point, seed).simulated(ENGINE).config
        result = load_run(folder, task=config.task or None, model=config.model)
        now, then = config.to_flat(), result.settings.to_flat()
        other = [key for key in now if key not in _ELSEWHERE and now[key] != then[key]]
        other += [key for key in _FILES if _without_folder(now[key]) != _without_folder(then[key])]
        kept = folder / _DIGEST
        if not other and kept.exists() and kept.read_text() != files_digest(config):
            other.append("content of its files")
        if result.summary and result.summary["task"] != code_identity(task_of(config)):
            other.append("task")
        if other:
            raise ConfigError(f"{folder}: was trained with another {', '.join(other)}; name another out=.")
        paid_from = Launch.read(RunFolder(folder)).ledgers
        if self.ledger not in (None, paid_from):
            raise ConfigError(f"{folder}: was paid for from {paid_from}; all runs must pay from one ledger.")
        return result if result.status not in ("", "failed") else None

    def _run(self, folder: Path, request: RunRequest) -> Result:
        begun, digest = RunFolder(folder).launch.exists(), files_digest(request.config).encode()
        if begun and self.in_memory:  # nobody can resume it
            folder.rename(folder.with_name(f"{folder.name},stopped-{time.time_ns()}"))
        quiet = self.quiet or not sys.stderr.isatty()
        with reporting_progress(nothing, quiet=quiet) as tell:  # a bar alone: a study has many runs
            if not begun or self.in_memory:
                simulated(request, tell, out=folder, ledger=self.ledger, quiet=True)
            else:
                resume(folder, ray_address=None, tell=tell)
        write_whole(folder / _DIGEST, lambda file: file.write(digest))
        return load_run(folder, task=request.config.task or None, model=request.config.model)

    def say(self, words: str) -> None:
        if not self.quiet:
            print(words, flush=True)


def _in_words(result: Result, seconds: float) -> str:
    spent = f"epsilon {rounded_up(result.epsilon)}" if result.private else NOT_PRIVATE
    own = {f"{LOCAL} {name}": one.mean for name, one in local_figures(result).items()}
    metrics = {**result.summary.get("metrics", {}), **own}
    shown = {name: value for name, value in metrics.items() if value is not None and not of_one_class(name)}
    said = [f"{name} {value:.4g}" for name, value in shown.items()]
    return ", ".join([*said[:_SHOWN], spent, f"{seconds:.1f} s"])


def _without_folder(name: object) -> tuple[str, ...]:
    """The kind and the file's name, as in csv:patients.csv."""
    return tuple(Path(part).name for part in str(name).split(":"))


def files_digest(config: RunConfig) -> str:
    """Of all files that the settings name, besides code."""
    digest = hashlib.sha256()
    for file in _files(config):
        digest.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _files(config: RunConfig) -> Iterator[Path]:
    for place in (config.data.partition(":")[2], config.start, config.schema, config.tokenizer):
        path = Path(place).expanduser()
        found = sorted(path.parent.glob(path.name.replace(CLIENT, "*"))) if place else []
        if path.is_file():
            found.append(path.with_name(f"{TEST}{path.suffix}"))  # a table's test records
        for one in found:
            yield from filter(Path.is_file, sorted(one.rglob("*")) if one.is_dir() else [one])


def _folder_name(point: Point, seed: int) -> str:
    labels = {key: value for key, value in point.labels.items() if value is not None}
    name = ",".join(f"{key}={value}" for key, value in {**labels, "seed": seed}.items())
    return re.sub(r"[^\w.,=+-]", "_", name)


def _left(took: Sequence[float], runs: int) -> str:
    """How long these runs take, if they are like the others."""
    return f"; {rough_duration(statistics.median(took) * runs)} left" if took else ""
