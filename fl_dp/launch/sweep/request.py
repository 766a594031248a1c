"""sweep.toml: a run config, keys with values to try, seeds; read, and every mistake named."""

import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fl_dp.choices import nearest
from fl_dp.config.files import read_toml
from fl_dp.config.flat import Scalar
from fl_dp.config.ranges import MOST_SEED
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.launch.request import read_config, request_of

MOST_RUNS = 1000
_KEYS = ("config", "seeds", "public", "vary-mechanism", "base", "grid", "run")
_SET_BY_THE_SWEEP = {"seed": "seeds = [0, 1] names the seeds", "out": "each run has a folder of its own"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=+-]{0,79}")
_LONGEST = 120  # characters of a run's name


@dataclass(frozen=True, slots=True)
class Point:
    """A combination of settings that is tried with every seed. settings: what differs from the base."""

    name: str
    settings: Mapping[str, Scalar]


@dataclass(frozen=True, slots=True)
class RequestedRun:
    """One run of a sweep. notes: what a launch would tell its user of the config."""

    name: str
    point: Point
    seed: int
    config: RunConfig
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """A sweep as its file asks for it.

    public: whether its author declares the data public or synthetic. vary_mechanism: whether the operator of
    the clients lets rate and noise vary, because they were fixed before any result was seen.
    """

    runs: tuple[RequestedRun, ...]
    public: bool
    vary_mechanism: bool


def read_sweep(file: Path, shipped: Path) -> SweepRequest:
    """Read sweep.toml; ConfigError names file, key and value. shipped: a folder of configs to fall back on.

    A config's path counts from the file's folder, then from the working directory.
    """
    table = read_toml(file, what="sweep file", named=True)
    try:
        return _asked(table, file.parent, shipped)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None


def _asked(table: Mapping[str, Any], folder: Path, shipped: Path) -> SweepRequest:
    _check_keys(table, _KEYS, "")
    base = (
        read_config(_config_file(table.get("config"), folder, shipped)) if "config" in table else RunConfig()
    )
    known = base.to_flat()
    fixed = _settings(table.get("base", {}), known, "[base]")
    points = (*_grid(table.get("grid", {}), known), *_named(table.get("run", []), known))
    _check_apart(fixed, points)
    seeds = _seeds(table.get("seeds", [base.seed]))
    points = points or (Point("base", {}),)
    if len(points) * len(seeds) > MOST_RUNS:
        raise ConfigError(f"{len(points) * len(seeds)} runs: expected at most {MOST_RUNS}; try fewer values.")
    runs = tuple(_run(base, fixed, point, seed) for point in points for seed in seeds)
    _check_unlike(runs)
    return SweepRequest(runs, _flag(table, "public"), _flag(table, "vary-mechanism"))


def _config_file(name: Any, folder: Path, shipped: Path) -> Path:
    if not isinstance(name, str):
        raise ConfigError(f"config = {name!r}: expected the path of a run config, in quotes.")
    for place in (folder / Path(name).expanduser(), Path(name).expanduser()):
        if place.is_file():
            return place
    if (shipped / Path(name).name).is_file() and Path(name).parent.name in ("", "configs"):
        return shipped / Path(name).name
    raise ConfigError(f"config = {name!r}: no such file, neither beside the sweep's file nor here.")


def _check_keys(found: Collection[str], known: Collection[str], where: str) -> None:
    for key in found:
        if key in known:
            continue
        near = nearest(key, known)
        hint = f"did you mean {near}?" if near else f"known are {', '.join(known)}."
        if not where and "-" not in key and not near:
            hint += " Settings of the runs stand in [base], [grid] and [[run]]."
        raise ConfigError(f"{where}{' ' if where else ''}{key}: unknown key; {hint}")


def _settings(found: Any, known: Mapping[str, Scalar], where: str) -> dict[str, Scalar]:
    if not isinstance(found, dict):
        raise ConfigError(f"{where}: expected a table of settings.")
    for key in found:
        if key in _SET_BY_THE_SWEEP:
            raise ConfigError(f"{where} {key}: the sweep sets it; {_SET_BY_THE_SWEEP[key]}.")
    _check_settings(found, known, where)
    for key, value in found.items():
        _check_scalar(key, value, where)
    return dict(found)


def _check_settings(found: Collection[str], known: Mapping[str, Scalar], where: str) -> None:
    """Fewer words than of a file's own keys: a run config has more than fifty."""
    for key in found:
        if key not in known:
            near = nearest(key, known)
            meant = f"did you mean {near}?" if near else "fl-dp keys lists them."
            raise ConfigError(f"{where} {key}: unknown key of a run config; {meant}")


def _check_scalar(key: str, value: Any, where: str) -> None:
    if not isinstance(value, str | int | float | bool):
        raise ConfigError(f"{where} {key} = {value!r}: expected one number, text, true or false.")


def _grid(found: Any, known: Mapping[str, Scalar]) -> list[Point]:
    if not isinstance(found, dict):
        raise ConfigError("[grid]: expected a table, KEY = [VALUES].")
    for key, values in found.items():
        if not isinstance(values, list) or not values:
            raise ConfigError(f"[grid] {key} = {values!r}: expected a list of values, such as [1, 3, 8].")
        for value in values:
            _settings({key: value}, known, "[grid]")
    if not found:
        return []
    names: dict[str, int] = {}
    points = []
    for values in itertools.product(*found.values()):
        settings = dict(zip(found, values, strict=True))
        points.append(Point(_unlike(_name_of(settings), names), settings))
    return points


def _named(found: Any, known: Mapping[str, Scalar]) -> list[Point]:
    if not isinstance(found, list):
        raise ConfigError("[run]: write [[run]], a table for each named combination.")
    points = []
    for number, table in enumerate(found, 1):
        where = f"[[run]] {number}"
        if not isinstance(table, dict):
            raise ConfigError(f"{where}: expected a table of settings.")
        name = table.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(
                f"{where} name = {name!r}: expected letters, digits and ._=+- in quotes, at most 80: it "
                "names a folder."
            )
        points.append(Point(name, _settings({k: v for k, v in table.items() if k != "name"}, known, where)))
    return points


def _name_of(settings: Mapping[str, Scalar]) -> str:
    return ",".join(f"{key}={_word(value)}" for key, value in settings.items())[:_LONGEST]


def _word(value: Scalar) -> str:
    """`value` as part of a file's name: no separators, nothing that a shell takes for its own."""
    if not isinstance(value, str):
        return str(value).lower()
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", value).strip("-") or "none"


def _unlike(name: str, names: dict[str, int]) -> str:
    """The name, with a number behind it where values differ only in what a name cannot hold."""
    names[name] = names.get(name, 0) + 1
    return name if names[name] == 1 else f"{name}~{names[name]}"


def _seeds(found: Any) -> tuple[int, ...]:
    if not isinstance(found, list) or not found:
        raise ConfigError(f"seeds = {found!r}: expected a list of integers, such as [0, 1, 2].")
    for seed in found:
        if type(seed) is not int or not 0 <= seed <= MOST_SEED:
            raise ConfigError(f"seeds: {seed!r}: expected an integer from 0 to {MOST_SEED}.")
    if len(set(found)) < len(found):
        raise ConfigError(f"seeds = {found!r}: a seed is named twice.")
    return tuple(found)


def _flag(table: Mapping[str, Any], key: str) -> bool:
    value = table.get(key, False)
    if not isinstance(value, bool):
        raise ConfigError(f"{key} = {value!r}: expected true or false.")
    return value


def _check_apart(fixed: Mapping[str, Scalar], points: Sequence[Point]) -> None:
    names = [point.name for point in points]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"[[run]] name = {name!r}: is the name of two runs.")
    for point in points:
        if both := sorted(fixed.keys() & point.settings.keys()):
            raise ConfigError(f"[base] {both[0]}: {point.name} sets it, too; leave it in one of the two.")


def _run(base: RunConfig, fixed: Mapping[str, Scalar], point: Point, seed: int) -> RequestedRun:
    try:
        request = request_of(base, {**fixed, **point.settings, "seed": seed})
    except ConfigError as error:
        raise ConfigError(f"{point.name}: {error}") from None
    return RequestedRun(f"{point.name},seed={seed}", point, seed, request.config, request.notes)


def _check_unlike(runs: Sequence[RequestedRun]) -> None:
    """ConfigError for two runs of one config: both would be paid for, and only one wanted."""
    seen: dict[RunConfig, str] = {}
    for run in runs:
        if run.config in seen:
            raise ConfigError(f"{run.name}: has the same settings as {seen[run.config]}; leave one out.")
        seen[run.config] = run.name
