"""Reads rounds.jsonl round by round, keeping no more of the clients than a page can show."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fl_dp.clean_text import clean
from fl_dp.records import CLIENT_STATUSES, LEAST_CELL
from fl_dp.reporting.page.by_part import BY_PART
from fl_dp.reporting.page.facts import Measured, Round, SiteMetrics
from fl_dp.reporting.page.site_metrics import read_site_metrics
from fl_dp.reporting.reports import counted_clients, epsilon_from_json, of_this_run
from fl_dp.reporting.run_files import Run

FEW = 20  # clients that are shown one by one
QUANTILES = (0.0, 0.1, 0.5, 0.9, 1.0)  # of the epsilons if there are more
_MOST_REASONS = 20


@dataclass(frozen=True, slots=True)
class History:
    """last: the last round as in the file, None if there is none; private: whether all were.

    masked: whether masks hid the parts of all opened secure sums, None if none was opened. site_metrics: the
    last ones.
    """

    rounds: tuple[Round, ...]
    reasons: tuple[tuple[str, str, int], ...]
    last: Mapping[str, Any] | None
    private: bool
    masked: bool | None
    site_metrics: SiteMetrics | None


def read_history(run: Run, order: Sequence[str] | None = None) -> History:
    """The rounds of a run. order: the clients' names; without it, those of each round.

    ConfigError, naming file and line, if one is damaged. Only one round at a time is in memory.
    """
    rounds, reasons, last, private = [], Counter[tuple[str, str]](), None, True
    masked, of_sites = set[bool](), None
    for last in run.rounds(whole=True):
        private = private and bool(last["private"])
        clients = last["clients"]
        of_sites = read_site_metrics(last) or of_sites
        masked |= {bool(last["secure_sum"]["masked"])} if last.get("secure_sum") else set()
        rounds.append(_round(last, order or sorted(clients, key=natural)))
        reasons.update((one["status"], clean(one["reason"])) for one in clients.values() if one["reason"])
    counted = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:_MOST_REASONS]
    return History(
        tuple(rounds),
        tuple((*key, count) for key, count in counted),
        last,
        private,
        all(masked) if masked else None,
        of_sites,
    )


def natural(name: str) -> tuple[float, str]:
    """A sort key: names that are numbers come first, in numeric order."""
    return (float(name) if name.isdecimal() and len(name) < 300 else math.inf, name)


def metrics_of(report: Mapping[str, Any]) -> dict[str, float | None]:
    """The metrics of all test data, by name; in files of an older fl_dp only accuracy."""
    found = report["metrics"] or ({"accuracy": report["accuracy"]} if report["accuracy"] is not None else {})
    return {clean(name): value for name, value in found.items() if not of_one_class(name)}


def of_one_class(metric: str) -> bool:
    """Whether it is a metric of a single class or subgroup, NAME[LABEL]."""
    return metric.endswith("]")


def by_part(summary: Mapping[str, Any]) -> dict[str, Measured]:
    """The metrics reported for each class or subgroup, by name, None if withheld.

    Empty for files in which small ones are not withheld.
    """
    if summary["suppressed_below"] < LEAST_CELL:
        return {}
    found = {metric: _of(metric, summary["metrics"]) for metric in BY_PART}
    return {metric: values for metric, values in found.items() if values}


def _of(metric: str, values: Mapping[str, float | None]) -> Measured:
    start = f"{metric}["
    return tuple(
        (clean(name[len(start) : -1]), value)
        for name, value in values.items()
        if name.startswith(start) and of_one_class(name)
    )


def _round(line: Mapping[str, Any], order: Sequence[str]) -> Round:
    clients = line["clients"]
    counts = Counter(one["status"] for one in clients.values())
    return Round(
        number=line["round"],
        epsilon=epsilon_from_json(line["epsilon"]),
        loss=line["loss"],
        metrics=metrics_of(line),
        seconds=float(line["seconds"] or 0.0),
        lost=clean(line["lost"]),
        counts=tuple(counts[name] for name in CLIENT_STATUSES),
        epsilons=_epsilons(line, order),
    )


def _epsilons(line: Mapping[str, Any], order: Sequence[str]) -> tuple[float, ...]:
    """What this run has cost them; in files of an older fl_dp all that they had spent."""
    spent_by = {name: epsilon_from_json(of_this_run(one)["epsilon"]) for name, one in line["clients"].items()}
    if len(order) <= FEW:
        return tuple(spent_by.get(name, math.nan) for name in order)
    spent = sorted(spent_by[name] for name in counted_clients(line))
    return tuple(spent[math.ceil(share * (len(spent) - 1))] for share in QUANTILES) if spent else ()
