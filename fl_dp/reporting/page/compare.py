"""Several runs: what differs between them, and which are one run with other seeds."""

from collections.abc import Sequence
from dataclasses import dataclass

from fl_dp.reporting.page.facts import Run
from fl_dp.reporting.page.numbers import UNKNOWN, charged, measured, number, seconds
from fl_dp.reporting.page.setting_facts import SEEDS
from fl_dp.reporting.page.table import Table
from fl_dp.reporting.reports import NOT_PRIVATE

_KEYS_NAMED = 3  # in a group's label
_LONGEST = 44
_OF_PRIVACY = ("epsilon", "delta", "noise-multiplier", "max-grad-norm")  # not used without
_MOST_COLUMNS = 12


@dataclass(frozen=True, slots=True)
class Group:
    """Runs whose settings differ in their seed at most. numbers: of the runs, from 1."""

    label: str
    runs: tuple[Run, ...]
    numbers: tuple[int, ...]

    @property
    def private(self) -> bool:
        return all(one.private for one in self.runs)


def differing(runs: Sequence[Run], *, asked: bool = False) -> tuple[str, ...]:
    """Keys of settings that are not alike in all runs, seeds left out. asked: as they were asked for."""
    found = [_settings(run, asked) for run in runs]
    keys = dict.fromkeys(key for one in found for key in one)
    return tuple(key for key in keys if len({one.get(key, "") for one in found}) > 1)


def groups_of(runs: Sequence[Run]) -> tuple[Group, ...]:
    """The groups, in the order of their first runs."""
    # runs of one plan whose "auto" became something else by a hair would else be groups of their own
    named = differing(runs, asked=True)
    members: dict[tuple[object, ...], list[int]] = {}
    for place, run in enumerate(runs):
        asked = _settings(run, asked=True)
        members.setdefault((run.private, *(asked.get(key, "") for key in named)), []).append(place)
    return tuple(
        Group(
            _label(runs[places[0]], named, number),
            tuple(runs[place] for place in places),
            tuple(place + 1 for place in places),
        )
        for number, places in enumerate(members.values(), 1)
    )


def differences(runs: Sequence[Run]) -> Table:
    """A row for each key that differs, a column for each run; of many runs only how many values it has."""
    found = [_settings(run, asked=False) for run in runs]
    keys = differing(runs)
    if len(runs) > _MOST_COLUMNS:
        counts = tuple((key, str(len({one.get(key, "") for one in found}))) for key in keys)
        return Table("differences", "Settings that differ", ("key", "different values"), counts)
    columns = ("key", *(f"run {place}" for place in range(1, len(runs) + 1)))
    rows = tuple((key, *(one.get(key, "") or "(empty)" for one in found)) for key in keys)
    return Table("differences", "Settings that differ", columns, rows, frozenset(columns))


def side_by_side(runs: Sequence[Run], groups: Sequence[Group]) -> Table:
    """A row for each run."""
    of = {number: group.label for group in groups for number in group.numbers}
    metric = _first_metric(runs)
    columns = (
        "run",
        "folder",
        "what it is",
        "seed",
        "epsilon",
        "delta",
        "unit",
        "rounds",
        metric,
        "loss",
        "time",
        "ended as",
    )
    rows = tuple(
        (
            f"run {place}",
            run.name,
            of[place],
            run.setting("seed") or UNKNOWN,
            charged(run.epsilon, run.arithmetic) if run.private else NOT_PRIVATE,
            number(run.delta) if run.private else "none",
            run.unit if run.private else "nobody",
            str(run.rounds),
            measured(dict(run.metrics).get(metric)),
            measured(run.loss),
            seconds(run.seconds),
            run.status,
        )
        for place, run in enumerate(runs, 1)
    )
    return Table("runs", "The runs", columns, rows, frozenset({"folder", "what it is", "unit", "ended as"}))


def digests(runs: Sequence[Run]) -> Table:
    """Which files each row stands for."""
    rows = tuple((f"run {place}", run.digest) for place, run in enumerate(runs, 1))
    return Table("digests", "Digest of each run's report", ("run", "SHA-256"), rows, frozenset({"SHA-256"}))


def _first_metric(runs: Sequence[Run]) -> str:
    return next((name for run in runs for name, _ in run.metrics), "metric")


def _settings(run: Run, asked: bool) -> dict[str, str]:
    return {one.key: one.asked if asked else one.became for one in run.settings if one.key not in SEEDS}


def _label(run: Run, keys: Sequence[str], number: int) -> str:
    asked = _settings(run, asked=True)
    unsaid = {"privacy"} if run.private else {"privacy", *_OF_PRIVACY}
    shown = [f"{key} {asked.get(key) or 'empty'}" for key in keys if key not in unsaid][:_KEYS_NAMED]
    label = ", ".join(shown if run.private else (NOT_PRIVATE, *shown))
    label = label or ("with privacy" if "privacy" in keys else "alike")
    return label if len(label) <= _LONGEST else f"{label[: _LONGEST - 5]}… ({number})"
