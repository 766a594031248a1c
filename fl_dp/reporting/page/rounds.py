"""Reads rounds.jsonl round by round, keeping no more of the clients than a page can show."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fl_dp.clean_text import clean
from fl_dp.errors import ConfigError
from fl_dp.records import CLIENT_STATUSES, LEAST_CELL
from fl_dp.reporting.page.facts import AccountOfTests, Estimate, Measured, Round, SiteMetrics
from fl_dp.reporting.page.outcomes import read_outcomes
from fl_dp.reporting.reports import epsilon_from_json
from fl_dp.reporting.run_files import Run

# Metrics reported by classes or subgroups: they are told if small ones are known to be withheld.
BY_PART = (
    "accuracy-per-class",
    "accuracy-per-subgroup",
    "recall-per-subgroup",
    "auroc-per-subgroup",
    "selection-rate-per-subgroup",
    "label-accuracy-per-subgroup",
    "mae-per-subgroup",
)


@dataclass(frozen=True, slots=True)
class History:
    """last: the last round as in the file, None if there is none; private: whether all were.

    masked: whether masks hid the parts of all opened secure sums, None if none was opened. site_metrics: the
    last ones.
    """

    rounds: tuple[Round, ...]
    last: Mapping[str, Any] | None
    private: bool
    masked: bool | None
    site_metrics: SiteMetrics | None


def read_history(run: Run) -> History:
    """The rounds of a run. ConfigError, naming file and line, if one is damaged."""
    rounds, last, private = [], None, True
    masked, of_sites = set[bool](), None
    for last in run.rounds(whole=True):
        private = private and bool(last["private"])
        of_sites = _site_metrics(last) or of_sites
        masked |= {bool(last["secure_sum"]["masked"])} if last.get("secure_sum") else set()
        counts = Counter(one["status"] for one in last["clients"].values())
        rounds.append(
            Round(
                number=last["round"],
                epsilon=epsilon_from_json(last["epsilon"]),
                loss=last["loss"],
                metrics=metrics_of(last),
                seconds=float(last["seconds"] or 0.0),
                lost=clean(last["lost"]),
                counts=tuple(counts[name] for name in CLIENT_STATUSES),
            )
        )
    return History(tuple(rounds), last, private, all(masked) if masked else None, of_sites)


def natural(name: str) -> tuple[float, str]:
    """A sort key: names that are numbers come first, in numeric order."""
    return (float(name) if name.isdecimal() and len(name) < 300 else math.inf, name)


def metrics_of(report: Mapping[str, Any]) -> dict[str, float | None]:
    """The metrics of all test data, by name; without any, accuracy if it is there."""
    found = report["metrics"] or ({"accuracy": report["accuracy"]} if report["accuracy"] is not None else {})
    return {clean(name): value for name, value in found.items() if not of_one_class(name)}


def of_one_class(metric: str) -> bool:
    """Whether it is a metric of a single class or subgroup, NAME[LABEL]."""
    return metric.endswith("]")


def by_part(summary: Mapping[str, Any]) -> Measured:
    """The metrics reported for each class or subgroup, None if withheld.

    Empty for files in which small ones are not withheld.
    """
    if summary["suppressed_below"] < LEAST_CELL:
        return ()
    parts = tuple(f"{metric}[" for metric in BY_PART)
    told = summary["metrics"].items()
    return tuple(
        (clean(name), value) for name, value in told if name.startswith(parts) and of_one_class(name)
    )


def _site_metrics(line: Mapping[str, Any]) -> SiteMetrics | None:
    """Those of a line of rounds.jsonl; None if it has none. ConfigError if they are damaged."""
    found = line.get("site_metrics")
    if not found:
        return None
    where = f"rounds.jsonl, round {line['round']}"
    outcomes = read_outcomes(found.get("outcomes", {}), where)
    with damaged(f"{where}: its site_metrics"):
        return SiteMetrics(
            number=line["round"],
            estimates=tuple(
                Estimate(clean(name), *(_number(one[key]) for key in ("value", "low", "high")))
                for name, one in found["metrics"].items()
            ),
            accounts=read_accounts(found),
            outcomes=outcomes,
        )


def read_accounts(found: Mapping[str, Any]) -> tuple[AccountOfTests, ...]:
    """The sites' accounts in a line's site_metrics, or in a summary's test_accounts."""
    return tuple(_account(clean(name), one) for name, one in found["sites"].items())


@contextmanager
def damaged(what: str) -> Iterator[None]:
    """ConfigError, which says that `what` is damaged, for what cannot be read."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ConfigError(f"{what} are damaged.") from None


def _account(name: str, one: Mapping[str, Any]) -> AccountOfTests:
    if "charges" not in one:
        return AccountOfTests(name)
    return AccountOfTests(
        name,
        epsilon_from_json(_number(one["epsilon"])),
        _number(one["budget"]),
        _number(one["delta"]),
        epsilon_from_json(_number(one["epsilon_alone"])) if "epsilon_alone" in one else None,
        int(one.get("unheard", 0)),
    )


def _number(value: object) -> float | None:
    if value is not None and type(value) not in (int, float):
        raise ValueError("no number")
    return None if value is None else float(value)  # type: ignore[arg-type]
