"""The values of the page of several runs."""

from collections.abc import Sequence
from typing import Any

from fl_dp.config.data import PERSON
from fl_dp.records import LEAST_CELL
from fl_dp.reporting.page.by_part import part_tables
from fl_dp.reporting.page.compare import (
    Group,
    copies,
    differences,
    digests,
    groups_of,
    launches,
    side_by_side,
)
from fl_dp.reporting.page.facts import Run
from fl_dp.reporting.page.words import headline
from fl_dp.reporting.promise import NO_PROMISE, PROMISE, PROMISE_OF_PERSONS
from fl_dp.reporting.reports import NOT_PRIVATE
from fl_dp.reporting.wording import counted

_ADDED_UP = (
    "Each epsilon is that of its own run; an older fl_dp counted earlier runs on the same ledgers, too. For "
    "whoever has seen all runs on the same records their epsilons add up. Choosing the best of several runs "
    "on private records is to have seen all of them."
)
_UNPROTECTED = (
    f"{NOT_PRIVATE}: some of these runs were trained without protection. Whoever compares them with "
    "private runs on the same records, and publishes both, publishes the unprotected ones."
)
_GUARANTEES = 50  # runs whose line is shown


def of_several(runs: Sequence[Run]) -> dict[str, Any]:
    """What the template needs, figures left out."""
    groups = groups_of(runs)
    private = all(run.private for run in runs)
    return {
        "private": private,
        "runs": runs,
        "headline": _headline(runs, groups),
        "table": side_by_side(runs, groups),
        "launches": launches(runs),
        "part_tables": part_tables(runs),
        "least_cell": LEAST_CELL,
        "added_up": _ADDED_UP,
        "unprotected": _UNPROTECTED,
        "differences": differences(runs),
        "guarantees": [(run, headline(run)) for run in runs[:_GUARANTEES]],
        "promise": _promise(runs),
        "digests": digests(runs),
        "groups": groups,
    }


def _headline(runs: Sequence[Run], groups: Sequence[Group]) -> str:
    unprotected = [f"run {place}" for place, run in enumerate(runs, 1) if not run.private]
    kinds = f"{counted(len(groups), 'kind')} of runs"
    text = f"{len(runs)} runs, {kinds} once seeds are set aside."
    if same := copies(runs):
        named = [f"run {place} is a copy of run {earlier}" for place, earlier in same.items()]
        text += f" The same files twice: {', '.join(named[:10])}{' and more' if len(named) > 10 else ''}."
    if unprotected:
        shown = ", ".join(unprotected[:10]) + (" and more" if len(unprotected) > 10 else "")
        text += f" {NOT_PRIVATE}: {shown}."
    return text


def _promise(runs: Sequence[Run]) -> str:
    protected = [run for run in runs if run.private]
    if not protected:
        return NO_PROMISE
    return PROMISE_OF_PERSONS if all(run.unit == PERSON for run in protected) else PROMISE
