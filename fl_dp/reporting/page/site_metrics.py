"""Metrics from the sites' own test records: read from a round's line, and as tables of the page."""

from collections.abc import Mapping
from typing import Any

from fl_dp.clean_text import clean
from fl_dp.errors import ConfigError
from fl_dp.records import Entry, total_steps
from fl_dp.reporting.page.facts import AccountOfTests, Estimate, RunFacts, SiteMetrics
from fl_dp.reporting.page.numbers import Shown, alone, epsilon, known_epsilon, number
from fl_dp.reporting.page.outcomes import read_outcomes
from fl_dp.reporting.page.pieces import Table
from fl_dp.reporting.reports import epsilon_from_json

_WORDS = frozenset({"in this evaluation", "reason", "accountant"})
_COUNTS = ("records", "invalid")  # with noise; shown without decimals


def read_site_metrics(line: Mapping[str, Any]) -> SiteMetrics | None:
    """Those of a line of rounds.jsonl; None if it has none. ConfigError if they are damaged."""
    found = line.get("site_metrics")
    if not found:
        return None
    outcomes = read_outcomes(found.get("outcomes", {}), f"rounds.jsonl, round {line['round']}")
    try:
        summed = found.get("secure_sum") or {}
        return SiteMetrics(
            number=line["round"],
            bins=int(found["bins"]),
            summed=int(summed.get("clients", 0)),
            masked=summed.get("masked") is True,
            lost=clean(str(found.get("lost", ""))),
            epsilon=_number(found["epsilon"]),
            estimates=tuple(
                Estimate(clean(name), *(_number(one[key]) for key in ("value", "low", "high")))
                for name, one in found["metrics"].items()
            ),
            accounts=tuple(_account(clean(name), one) for name, one in found["sites"].items()),
            outcomes=outcomes,
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ConfigError(f"rounds.jsonl, round {line['round']}: its site_metrics are damaged.") from None


def _account(name: str, one: Mapping[str, Any]) -> AccountOfTests:
    status, reason = clean(str(one["status"])), clean(str(one["reason"]))
    if "charges" not in one:
        return AccountOfTests(name, status, reason)
    return AccountOfTests(
        name,
        status,
        reason,
        _number(one["epsilon"]),
        _number(one["budget"]),
        _number(one["delta"]),
        clean(str(one["accountant"])),
        tuple(map(Entry.from_dict, one["charges"])),
        epsilon_from_json(_number(one["epsilon_alone"])) if "epsilon_alone" in one else None,
    )


def _number(value: object) -> float | None:
    if value is not None and type(value) not in (int, float):
        raise ValueError("no number")
    return None if value is None else float(value)  # type: ignore[arg-type]


def site_metric_tables(run: RunFacts) -> tuple[Table, ...]:
    """The metrics with their intervals, and the accounts that paid for them."""
    if run.site_metrics is None:
        return ()
    found = run.site_metrics
    in_sums = any(one.epsilon_alone is not None for one in found.accounts)
    return (
        Table(
            "site-metrics",
            f"Metrics from the sites' own test records, after round {found.number}",
            ("metric", "value", "95 % from", "to"),
            tuple(
                (one.name, *(_measured(one.name, value) for value in (one.value, one.low, one.high)))
                for one in found.estimates
            ),
        ),
        Table(
            "test-accounts",
            "The sites' accounts of test records",
            (
                "client", "in this evaluation", "epsilon", *(["alone"] if in_sums else []), "budget",
                "delta", "evaluations", "noise multiplier", "accountant", "reason",
            ),
            tuple(_row(one, in_sums) for one in found.accounts),
            _WORDS,
        ),
    )  # fmt: skip


def _row(one: AccountOfTests, in_sums: bool) -> tuple[str, ...]:
    if not one.charges:
        return (one.client, one.status, *["none"] * (6 + in_sums), one.reason)
    own = one.epsilon if one.epsilon_alone is None else one.epsilon_alone
    return (
        one.client,
        one.status,
        epsilon(one.epsilon),
        *((alone(epsilon_from_json(own)),) if in_sums else ()),
        known_epsilon(one.budget),
        number(one.delta),
        number(total_steps(one.charges)),
        number(one.charges[0].noise_multiplier),
        one.accountant,
        one.reason,
    )


def _measured(name: str, value: float | None) -> Shown:
    form = ".0f" if name in _COUNTS else ".4f"
    return Shown("too few records" if value is None else f"{value:{form}}", value)
