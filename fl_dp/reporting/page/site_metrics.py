"""Metrics from the sites' own test records: read from a round's line, and as tables of the page."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fl_dp.clean_text import clean
from fl_dp.errors import ConfigError
from fl_dp.records import Entry, total_steps
from fl_dp.reporting.page.facts import AccountOfTests, Estimate, RunFacts, SiteMetrics
from fl_dp.reporting.page.numbers import UNKNOWN, Shown, alone, epsilon, known_epsilon, number
from fl_dp.reporting.page.outcomes import read_outcomes
from fl_dp.reporting.page.pieces import Table
from fl_dp.reporting.reports import epsilon_from_json

_WORDS = frozenset({"in the last evaluation", "reason", "accountant"})
_COUNTS = ("records", "invalid")  # with noise; shown without decimals


def read_site_metrics(line: Mapping[str, Any]) -> SiteMetrics | None:
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
        int(one.get("unheard", 0)),
    )


def _number(value: object) -> float | None:
    if value is not None and type(value) not in (int, float):
        raise ValueError("no number")
    return None if value is None else float(value)  # type: ignore[arg-type]


def site_metric_tables(run: RunFacts) -> tuple[Table, ...]:
    """The metrics with their intervals, and the accounts that paid for them; none if there are none."""
    found, in_sums = run.site_metrics, any(one.epsilon_alone is not None for one in run.test_accounts)
    tables = (
        Table(
            "site-metrics",
            f"Metrics from the sites' own test records, after round {found.number if found else 0}",
            ("metric", "value", "95 % from", "to"),
            tuple(
                (one.name, *(_measured(one.name, value) for value in (one.value, one.low, one.high)))
                for one in (found.estimates if found else ())
            ),
        ),
        Table(
            "test-accounts",
            "The sites' accounts of test records",
            (
                "client", "in the last evaluation", "epsilon", *(["alone"] if in_sums else []), "budget",
                "delta", "evaluations", "noise multiplier", "accountant", "reason",
            ),
            tuple(_row(one, in_sums) for one in run.test_accounts),
            _WORDS,
        ),
    )  # fmt: skip
    return tables if found else tables[1:] if run.test_accounts else ()


def _row(one: AccountOfTests, in_sums: bool) -> tuple[str, ...]:
    if one.epsilon is None:
        return (one.client, one.status, *["none"] * (6 + in_sums), one.reason)
    own = one.epsilon if one.epsilon_alone is None else one.epsilon_alone
    return (
        one.client,
        one.status,
        _most(one, epsilon(one.epsilon)),
        *((_most(one, alone(epsilon_from_json(own))),) if in_sums else ()),
        known_epsilon(one.budget),
        number(one.delta),
        _most(one, number(total_steps(one.charges))) if one.charges else UNKNOWN,
        number(one.charges[0].noise_multiplier) if one.charges else UNKNOWN,
        one.accountant,
        one.reason,
    )


def _most(one: AccountOfTests, shown: Shown) -> Shown:
    """Named an upper bound, if it is one and there is one."""
    return Shown(f"at most {shown}", shown.value) if one.unheard and shown.value != math.inf else shown


def _measured(name: str, value: float | None) -> Shown:
    form = ".0f" if name in _COUNTS else ".4f"
    return Shown("too few records" if value is None else f"{value:{form}}", value)
