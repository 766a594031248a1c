"""Reads sweep.toml: a run config, keys with values to try, and seeds; names every mistake."""

import itertools
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fl_dp.choices import nearest
from fl_dp.config.files import read_toml
from fl_dp.config.flat import Scalar
from fl_dp.config.run import RunConfig
from fl_dp.config.setting import MOST_SEED
from fl_dp.errors import ConfigError
from fl_dp.launch.request import read_config, request_of

MOST_RUNS = 1000
_KEYS = ("config", "seeds", "public", "vary-mechanism", "base", "grid", "run")
_SET_BY_THE_SWEEP = {"seed": "seeds = [0, 1] names the seeds", "out": "each run has its own folder"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=+-]{0,79}")
_LONGEST = 120  # characters of a run's name


Point = tuple[str, Mapping[str, Scalar]]  # a combination to try with every seed: name, settings


@dataclass(frozen=True, slots=True)
class RequestedRun:
    """One run of a sweep. point: the name of its combination; settings: what differs from the base.

    notes: what a launch would tell its user about the config. sizes: the public size of each client; public:
    the data are a public benchmark set. seconds: in which one client's data were read. All are known once the
    run was checked against all that a launch refuses.
    """

    name: str
    point: str
    seed: int
    settings: Mapping[str, Scalar]
    config: RunConfig
    notes: tuple[str, ...]
    sizes: tuple[int, ...] = ()
    public: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """A sweep as its file asks for it.

    public: its author declares the data public or synthetic. vary_mechanism: the operator of the clients lets
    rate and noise vary, because they were fixed before any result was seen.
    """

    runs: tuple[RequestedRun, ...]
    public: bool
    vary_mechanism: bool


def read_sweep(file: Path, shipped: Path) -> SweepRequest:
    """Read sweep.toml; ConfigError names file, key and value. shipped: a folder of configs to fall back on.

    The path of a config is tried relative to the file's folder, then to the working directory.
    """
    table = read_toml(file, what="sweep file", named=True)
    try:
        return _asked(table, file.parent, shipped)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None


def _asked(table: Mapping[str, Any], folder: Path, shipped: Path) -> SweepRequest:
    _check_keys(table)
    base = read_config(_config_file(table["config"], folder, shipped)) if "config" in table else RunConfig()
    known = base.to_flat()
    fixed = _settings(table.get("base", {}), known, "[base]")
    points = (*_grid(table.get("grid", {}), known), *_named(table.get("run", []), known))
    _check_apart(fixed, points)
    seeds = _seeds(table.get("seeds", [base.seed]))
    points = points or (("base", {}),)
    if len(points) * len(seeds) > MOST_RUNS:
        raise ConfigError(
            f"{len(points) * len(seeds)} runs: expected at most {MOST_RUNS}; give fewer values."
        )
    runs = tuple(_run(base, fixed, *point, seed) for point in points for seed in seeds)
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
    raise ConfigError(f"config = {name!r}: no such file, neither beside the sweep file nor in this folder.")


def _check_keys(found: Collection[str]) -> None:
    for key in found:
        if key not in _KEYS:
            near = nearest(key, _KEYS)
            hint = f"did you mean {near}?" if near else f"known keys are {', '.join(_KEYS)}."
            if "-" not in key and not near:
                hint += " Settings of the runs belong in [base], [grid] and [[run]]."
            raise ConfigError(f"{key}: unknown key; {hint}")


def _settings(found: Any, known: Mapping[str, Scalar], where: str) -> dict[str, Scalar]:
    """The settings of a table. The error for an unknown key is short: a run has many keys."""
    if not isinstance(found, dict):
        raise ConfigError(f"{where}: expected a table of settings.")
    for key in found:
        if key in _SET_BY_THE_SWEEP:
            raise ConfigError(f"{where} {key}: the sweep sets this key; {_SET_BY_THE_SWEEP[key]}.")
    for key in found:
        if key not in known:
            near = nearest(key, known)
            meant = f"did you mean {near}?" if near else "fl-dp keys lists them."
            raise ConfigError(f"{where} {key}: unknown key of a run config; {meant}")
    for key, value in found.items():
        if not isinstance(value, str | int | float | bool):
            raise ConfigError(f"{where} {key} = {value!r}: expected one number or text, or true or false.")
    return found


def _grid(found: Any, known: Mapping[str, Scalar]) -> list[Point]:
    if not isinstance(found, dict):
        raise ConfigError("[grid]: expected a table, KEY = [VALUES].")
    for key, values in found.items():
        if not isinstance(values, list) or not values:
            raise ConfigError(f"[grid] {key} = {values!r}: expected a list of values, such as [1, 3, 8].")
        for value in values:
            _settings({key: value}, known, "[grid]")
    names: Counter[str] = Counter()
    points: list[Point] = []
    for values in itertools.product(*found.values()) if found else ():
        settings = dict(zip(found, values, strict=True))
        name = ",".join(f"{key}={_word(value)}" for key, value in settings.items())[:_LONGEST]
        names[name] += 1  # values may differ only in characters that a name cannot hold
        points.append((name if names[name] == 1 else f"{name}~{names[name]}", settings))
    return points


def _named(found: Any, known: Mapping[str, Scalar]) -> list[Point]:
    if not isinstance(found, list):
        raise ConfigError("[run]: write [[run]], a table for each named combination.")
    points: list[Point] = []
    for number, table in enumerate(found, 1):
        where = f"[[run]] {number}"
        if not isinstance(table, dict):
            raise ConfigError(f"{where}: expected a table of settings.")
        name = table.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(
                f"{where} name = {name!r}: expected at most 80 letters, digits and ._=+- in quotes, as it "
                "names a folder."
            )
        points.append((name, _settings({k: v for k, v in table.items() if k != "name"}, known, where)))
    return points


def _word(value: Scalar) -> str:
    """`value` as part of a file name: no separators, and nothing special to a shell."""
    if not isinstance(value, str):
        return str(value).lower()
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", value).strip("-") or "none"


def _seeds(found: Any) -> tuple[int, ...]:
    if not isinstance(found, list) or not found:
        raise ConfigError(f"seeds = {found!r}: expected a list of integers, such as [0, 1, 2].")
    for seed in found:
        if type(seed) is not int or not 0 <= seed <= MOST_SEED:
            raise ConfigError(f"seeds: {seed!r}: expected an integer from 0 to {MOST_SEED}.")
    if len(set(found)) < len(found):
        raise ConfigError(f"seeds = {found!r}: a seed appears twice.")
    return tuple(found)


def _flag(table: Mapping[str, Any], key: str) -> bool:
    value = table.get(key, False)
    if not isinstance(value, bool):
        raise ConfigError(f"{key} = {value!r}: expected true or false.")
    return value


def _check_apart(fixed: Mapping[str, Scalar], points: Sequence[Point]) -> None:
    for name, number in Counter(name for name, _ in points).items():
        if number > 1:
            raise ConfigError(f"[[run]] name = {name!r}: two runs have this name.")
    for name, settings in points:
        if both := sorted(fixed.keys() & settings.keys()):
            raise ConfigError(f"[base] {both[0]}: {name} sets it as well; keep it in only one of the two.")


def _run(
    base: RunConfig, fixed: Mapping[str, Scalar], point: str, settings: Mapping[str, Scalar], seed: int
) -> RequestedRun:
    try:
        request = request_of(base, {**fixed, **settings, "seed": seed})
    except ConfigError as error:
        raise ConfigError(f"{point}: {error}") from None
    return RequestedRun(f"{point},seed={seed}", point, seed, settings, request.config, request.notes)


def _check_unlike(runs: Sequence[RequestedRun]) -> None:
    """Raise ConfigError for two runs with one config: both would be paid for, and only one is wanted."""
    seen: dict[RunConfig, str] = {}
    for run in runs:
        if run.config in seen:
            raise ConfigError(
                f"{run.name}: has the same settings as {seen[run.config]}; leave one of the two out."
            )
        seen[run.config] = run.name
