"""The page of several runs: how they differ, and which differ only in their seed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fl_dp.config.data import PERSON
from fl_dp.reporting.page.by_part import part_tables
from fl_dp.reporting.page.described import SEEDS
from fl_dp.reporting.page.facts import RunFacts
from fl_dp.reporting.page.numbers import UNKNOWN, Shown, alone, charged, measured, number, seconds
from fl_dp.reporting.page.over import of_one_run, only_of_one_run
from fl_dp.reporting.page.pieces import Table
from fl_dp.reporting.page.words import headline
from fl_dp.reporting.promise import NO_PROMISE, PROMISE, PROMISE_OF_PERSONS
from fl_dp.reporting.reports import NOT_PRIVATE
from fl_dp.reporting.wording import counted

_KEYS_NAMED = 3  # in text
_LONGEST_NAME, _LONGEST = 24, 44  # characters of a label's folder name and of its differences
_OF_PRIVACY = ("epsilon", "delta", "noise-multiplier", "max-grad-norm")  # unused without privacy
_WEIGHTY = (*_OF_PRIVACY, "unit", "aggregation", "data", "task", "model", "learning-rate", "rounds")
_MOST_COLUMNS = 12
_BESIDE = _LAUNCHED, _LEDGERS, _SUMS, _DATA = ("launched", "ledgers", "secure sums", "data as signed")
_SIGNERS = 6  # clients that one cell can name
_ADDED_UP = (
    "Each epsilon is that of its own run; older versions of fl_dp also counted earlier runs on the same "
    "ledgers. For somebody who has seen all runs on the same records, their epsilons add up. Whoever "
    "chooses the best of several runs on private records has seen all of them."
)
_UNPROTECTED = (
    f"{NOT_PRIVATE}: some of these runs were trained without protection. Whoever compares them with "
    "private runs on the same records, and publishes both, publishes the unprotected ones."
)
_GUARANTEES = 50  # runs whose line is shown


@dataclass(frozen=True, slots=True)
class Group:
    """Runs that differ at most in their seed; copies are in no group. numbers: of the runs, from 1.

    name: of its folders, unique among groups. what: the settings that tell it from the others.
    """

    name: str
    what: str
    runs: tuple[RunFacts, ...]
    numbers: tuple[int, ...]

    @property
    def label(self) -> str:
        return f"{self.name}: {self.what}"

    @property
    def private(self) -> bool:
        return all(one.private for one in self.runs)


def of_several(runs: Sequence[RunFacts]) -> dict[str, Any]:
    """The template's values, without figures."""
    groups = groups_of(runs)
    return {
        "private": all(run.private for run in runs),
        "runs": runs,
        "headline": _headline(runs, groups),
        "table": side_by_side(runs, groups),
        "launches": launches(runs),
        "part_tables": part_tables(runs),
        "added_up": _ADDED_UP,
        "unprotected": _UNPROTECTED,
        "differences": differences(runs),
        "guarantees": [(run, headline(run)) for run in runs[:_GUARANTEES]],
        "promise": _promise(runs),
        "digests": digests(runs),
        "groups": groups,
    }


def _headline(runs: Sequence[RunFacts], groups: Sequence[Group]) -> str:
    unprotected = [f"run {place}" for place, run in enumerate(runs, 1) if not run.private]
    kinds = f"{counted(len(groups), 'kind')} of runs"
    text = f"{len(runs)} runs, {kinds} apart from seeds."
    if same := copies(runs):
        named = [f"run {place} is a copy of run {earlier}" for place, earlier in same.items()]
        text += f" The same files twice: {', '.join(named[:10])}{' and more' if len(named) > 10 else ''}."
    if unprotected:
        shown = ", ".join(unprotected[:10]) + (" and more" if len(unprotected) > 10 else "")
        text += f" {NOT_PRIVATE}: {shown}."
    return text


def _promise(runs: Sequence[RunFacts]) -> str:
    protected = [run for run in runs if run.private]
    if not protected:
        return NO_PROMISE
    return PROMISE_OF_PERSONS if all(run.unit == PERSON for run in protected) else PROMISE


def differing(runs: Sequence[RunFacts], *, asked: bool = False) -> tuple[str, ...]:
    """Keys whose values differ between runs, seeds left out. asked: compare settings as requested."""
    found = [_settings(run, asked) for run in runs]
    keys = dict.fromkeys(key for one in found for key in one)
    return tuple(key for key in keys if len({one.get(key, "") for one in found}) > 1)


def groups_of(runs: Sequence[RunFacts]) -> tuple[Group, ...]:
    """The groups, in the order of their first runs."""
    # otherwise runs of one plan whose "auto" values differ slightly would form separate groups
    named = differing(runs, asked=True)
    members: dict[tuple[object, ...], list[int]] = {}
    same = copies(runs)
    for place, run in enumerate(runs):
        if place + 1 in same:
            continue
        asked = _settings(run, asked=True)
        members.setdefault((run.private, *(asked.get(key, "") for key in named)), []).append(place)
    telling = _telling([runs[places[0]] for places in members.values()], named)
    names = [_folders(runs, places) for places in members.values()]
    return tuple(
        Group(
            name if names.count(name) == 1 else f"{name} ({number})",
            _what(runs[places[0]], telling),
            tuple(runs[place] for place in places),
            tuple(place + 1 for place in places),
        )
        for number, (places, name) in enumerate(zip(members.values(), names, strict=True), 1)
    )


def copies(runs: Sequence[RunFacts]) -> dict[int, int]:
    """Maps the number of each run that copies an earlier one's files to that one's number; both from 1."""
    first: dict[str, int] = {}
    found = {place: first.setdefault(run.digest, place) for place, run in enumerate(runs, 1)}
    return {place: earlier for place, earlier in found.items() if place != earlier}


def _telling(runs: Sequence[RunFacts], named: Sequence[str]) -> tuple[str, ...]:
    """The keys that best tell these runs apart; each next one splits them into the most kinds.

    Ties go to keys about what was promised and learned.
    """
    asked = [_settings(run, asked=True) for run in runs]
    left = [key for key in named if key != "privacy"]  # a run without privacy is marked as such anyway
    chosen: tuple[str, ...] = ()
    while left and len(chosen) < _KEYS_NAMED:
        best = max(left, key=lambda key: (*_kinds(asked, chosen, key), key in _WEIGHTY))
        chosen = (*chosen, best)
        told = _one_fact(asked, best)
        left = [key for key in left if _one_fact(asked, key) != told]
    return chosen


def _one_fact(found: Sequence[Mapping[str, str]], key: str) -> tuple[str, ...]:
    """Keys that express one fact, such as client counts that all runs set alike."""
    return (key.rpartition("-")[2], *(one.get(key, "") for one in found))


def _kinds(asked: Sequence[Mapping[str, str]], chosen: Sequence[str], key: str) -> tuple[int, int]:
    """Number of kinds of runs by the chosen keys plus this one, and by this one alone."""
    found = [tuple(one.get(name, "") for name in (*chosen, key)) for one in asked]
    return len(set(found)), len({one[-1] for one in found})


def _folders(runs: Sequence[RunFacts], places: Sequence[int]) -> str:
    """The name of the first run's folder, with its number if others have the same name."""
    name = runs[places[0]].name
    text = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
    if sum(run.name == name for run in runs) > 1:
        text += f" (run {places[0] + 1})"
    return text + (f" and {len(places) - 1} more" if len(places) > 1 else "")


def differences(runs: Sequence[RunFacts]) -> Table:
    """A row for each key that differs, a column for each run; with many runs only the number of values."""
    found = [_settings(run, asked=False) for run in runs]
    same: dict[tuple[str, ...], list[str]] = {}
    for key in differing(runs):
        same.setdefault(_one_fact(found, key), []).append(key)
    keys = {one[0]: ", ".join(one) for one in same.values()}
    if len(runs) > _MOST_COLUMNS:
        counts = tuple((named, str(len({one.get(key, "") for one in found}))) for key, named in keys.items())
        return Table("differences", "What differs", ("what", "different values"), counts)
    columns = ("what", *(f"run {place}" for place in range(1, len(runs) + 1)))
    rows = tuple((named, *(one.get(key, "") or "(empty)" for one in found)) for key, named in keys.items())
    return Table("differences", "What differs", columns, rows, frozenset(columns))


def side_by_side(runs: Sequence[RunFacts], groups: Sequence[Group]) -> Table:
    """A row for each run."""
    what = {number: group.what for group in groups for number in group.numbers}
    what |= {place: f"a copy of run {earlier}" for place, earlier in copies(runs).items()}
    metrics = tuple(dict.fromkeys(name for run in runs for name in run.metrics)) or ("metric",)
    in_sums = any(run.epsilon_alone is not None for run in runs)
    columns = (
        "run",
        "folder",
        "what differs",
        "seed",
        "epsilon",
        *(("if the assumption behind secure sums fails",) if in_sums else ()),
        "delta",
        "unit",
        "rounds",
        *metrics,
        "loss",
        "time",
        "ended as",
    )
    rows = tuple(
        (
            f"run {place}",
            run.name,
            what[place],
            run.setting("seed") or UNKNOWN,
            *_epsilons(run, in_sums),
            number(run.delta) if run.private else Shown("none", None),
            run.unit if run.private else "nobody",
            str(run.rounds),
            *(measured(run.metrics.get(metric)) for metric in metrics),
            measured(run.loss),
            seconds(run.seconds),
            run.status,
        )
        for place, run in enumerate(runs, 1)
    )
    return Table("runs", "The runs", columns, rows, frozenset({"folder", "what differs"}))


def launches(runs: Sequence[RunFacts]) -> Table:
    """How each run was launched, and who has signed what its data have spent."""
    columns = ("run", "folder", *_beside(runs[0]), "signed by")
    rows = tuple(
        (f"run {place}", run.name, *_beside(run).values(), _signers(run)) for place, run in enumerate(runs, 1)
    )
    return Table(
        "launches", "How the runs were launched, and who has signed", columns, rows, frozenset(columns)
    )


def _signers(run: RunFacts) -> str:
    names = [one.client for one in run.signed]
    more = f" and {len(names) - _SIGNERS} more" if len(names) > _SIGNERS else ""
    keys = ", by keys of this launch alone" if names and run.local else ""
    return (", ".join(names[:_SIGNERS]) or "nobody") + more + keys


def _beside(run: RunFacts) -> dict[str, str]:
    """What runs can differ in besides their settings. Each value is clear without its key."""
    data = ", ".join(sorted({one.name or one.kind for one in run.signed}))
    return {
        _LAUNCHED: _launched(run),
        _LEDGERS: _ledgers(run),
        _SUMS: _masks(run),
        _DATA: f"signed: {data}" if data else "unsigned data",
    }


def _launched(run: RunFacts) -> str:
    if run.simulated:
        return "simulated"
    return "one machine" if run.local else "by others, or not known"


def _ledgers(run: RunFacts) -> str:
    if not of_one_run(run):
        return "lasting ledgers"
    return "one-run ledgers" if only_of_one_run(run) else "some one-run ledgers"


def _masks(run: RunFacts) -> str:
    if run.masked is None:
        return "no sums"
    return "masked sums" if run.masked else "sums in the clear"


def _epsilons(run: RunFacts, in_sums: bool) -> tuple[str, ...]:
    """in_sums: some run has two epsilons. A run without secure sums has one, whatever fails."""
    if not run.private:
        return (Shown(NOT_PRIVATE, math.inf),) * (1 + in_sums)
    first = charged(run.epsilon, run.arithmetic)
    return (first, *((first if run.epsilon_alone is None else alone(run.epsilon_alone),) if in_sums else ()))


def digests(runs: Sequence[RunFacts]) -> Table:
    """The files that each row stands for."""
    rows = tuple((f"run {place}", run.digest) for place, run in enumerate(runs, 1))
    return Table("digests", "Digest of each run's report", ("run", "SHA-256"), rows, frozenset({"SHA-256"}))


def _settings(run: RunFacts, asked: bool) -> dict[str, str]:
    found = {one.key: one.asked if asked else one.became for one in run.settings if one.key not in SEEDS}
    return found | _beside(run)


def _what(run: RunFacts, keys: Sequence[str]) -> str:
    asked = _settings(run, asked=True)
    shown = [
        asked[key] if key in _BESIDE else f"{key} {asked.get(key) or 'empty'}"
        for key in sorted(keys, key=lambda key: key in _BESIDE)
        if run.private or key not in _OF_PRIVACY
    ]
    text = ", ".join(shown if run.private else (NOT_PRIVATE, *shown)) or "the same except for seeds"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
