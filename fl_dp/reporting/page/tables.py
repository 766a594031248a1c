"""The six tables of a page: clients, their noise, statements, rounds, metrics, settings."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fl_dp.kits.keys import fingerprint
from fl_dp.kits.signed import Signature
from fl_dp.records import CLIENT_STATUSES
from fl_dp.reporting.console import alone_words
from fl_dp.reporting.page.facts import RunFacts, Site, metrics_of
from fl_dp.reporting.page.numbers import (
    NOT_USED,
    UNKNOWN,
    epsilon,
    known_epsilon,
    measured,
    number,
    seconds,
)
from fl_dp.reporting.reports import ClientReport, Estimate, TestAccount

LISTED = 200  # rows on the page
_OF_EPSILON = ("noise-multiplier", "max-grad-norm", "epsilon", "delta", "accountant")  # else not used
_COUNTS = ("records", "invalid")  # noised; shown without decimals
_WORDS = frozenset(
    (
        "in the last round",
        "reason",
        "accountant",
        "arithmetic",
        "data",
        "stated by",
        "commitment",
        "lost",
        "metric",
        "measured on",
        "key",
        "asked for",
        "what ran",
    )
)
Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """rows: a text for each of `columns`; the first is the row's heading."""

    key: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    words: frozenset[str] = _WORDS

    @property
    def listed(self) -> tuple[Row, ...]:
        return self.rows[:LISTED]

    @property
    def left_out(self) -> int:
        return max(0, len(self.rows) - LISTED)


def _table(key: str, caption: str, rows: Iterable[Mapping[str, str]]) -> Table:
    """The first row has all columns, in order; cells that another row lacks are empty."""
    rows = list(rows)
    columns = tuple(rows[0]) if rows else ()
    return Table(key, caption, columns, tuple(tuple(row.get(name, "") for name in columns) for row in rows))


def tables(run: RunFacts) -> dict[str, Table]:
    made = (clients(run), noise(run), statements(run), rounds(run), metrics(run), settings(run))
    return {one.key: one for one in made}


def clients(run: RunFacts) -> Table:
    """What each client's data have spent. Of many, those who have spent most in this run come first."""
    sums = "if the assumption fails" if run.parts_hidden else "against anyone who sees the parts"
    in_sums, tests = run.epsilon_alone is not None, dict(run.tests)
    shown = list(run.clients.items())
    if len(shown) > LISTED:
        shown.sort(key=lambda one: -one[1].cost.epsilon)

    def row(name: str, one: ClientReport) -> dict[str, str]:
        used = run.private or math.isfinite(one.epsilon)  # else a cell about epsilon says nothing
        return {
            "client": name,
            "this run": epsilon(one.cost.epsilon),
            "all runs in its ledger": epsilon(one.epsilon),
            "budget": epsilon(one.budget) if used else NOT_USED,
            "if all planned rounds run": known_epsilon(one.planned_epsilon) if used else NOT_USED,
            **({sums: alone_words(one.if_sums_fail)} if in_sums else {}),
            **({"its test records": _of_tests(tests.pop(name, None))} if run.tests else {}),
            "delta": number(one.delta) if used else NOT_USED,
            "rounds": f"{one.rounds if run.over else UNKNOWN} ({one.rounds_left + one.rounds_beyond} left)",
            "in the last round": one.status,
            "reason": one.reason,
        }

    rows = [row(*one) for one in shown]
    rows += [{"client": name, "its test records": _of_tests(one)} for name, one in tests.items()]  # others
    return _table("clients", "What each client's data have spent, as epsilon", rows)


def _of_tests(one: TestAccount | None) -> str:
    """What evaluations have cost; an upper bound if it is not known whether the site has paid."""
    if one is None or not one.is_there:
        return "none"
    most = "at most " if one.unheard and math.isfinite(one.epsilon) else ""
    own = "" if one.epsilon_alone is None else f", alone {alone_words(one.epsilon_alone)}"
    return f"{most}{epsilon(one.epsilon)} of {epsilon(one.budget)} at delta {number(one.delta)}{own}"


def noise(run: RunFacts) -> Table:
    of_sum = "" if run.epsilon_alone is None else " of the sum"

    def row(name: str, one: ClientReport) -> dict[str, str]:
        used = run.private or math.isfinite(one.epsilon)
        return {
            "client": name,
            f"noise multiplier{of_sum}": _noise(one),
            "sample rate": number(one.sample_rate),
            f"declared size ({run.unit}s)": _size(one.public_size),
            "steps of this run": number(one.cost.taken),
            "steps in all": number(one.steps),
            "accountant": one.accountant if used else NOT_USED,
            "arithmetic": one.arithmetic if used else NOT_USED,
        }

    caption = f"Noise and steps{': planned, not run' if run.released_nothing else ''}"
    return _table("noise", caption, (row(*one) for one in run.clients.items()))


def _size(value: int) -> str:
    return f"{value:,}" if value else UNKNOWN


def _noise(one: ClientReport) -> str:
    """The noise multiplier, or its range if the rounds of this run differ."""
    found = {entry.noise_multiplier for entry in one.cost.charges}
    if len(found) > 1:
        return f"{number(max(found))} to {number(min(found))}"
    return number(one.noise_multiplier)


def statements(run: RunFacts) -> Table:
    """What sites have stated, and clients of whom nobody has stated anything."""
    columns = ("client", "data", "declared size", "epsilon", "budget", "delta", "stated by", "commitment")
    stated = [
        {
            "client": one.client,
            "data": f"{one.data} ({one.kind})" if one.kind else one.data,
            "declared size": f"{_size(one.public_size)} {one.unit}s",
            "epsilon": epsilon(one.epsilon),
            "budget": epsilon(one.budget),
            "delta": number(one.delta),
            "stated by": _stated_by(site),
            "commitment": site.said.commitment if site.said else "",
        }
        for site in run.sites
        for one in site.data
    ]
    known = {row["client"] for row in stated}
    stated += [{"client": UNKNOWN, "stated by": _stated_by(site)} for site in run.sites if not site.data]
    stated += [{"client": name, "stated by": "the server alone"} for name in run.clients if name not in known]
    rows = [dict.fromkeys(columns, "") | row for row in stated]
    return _table("statements", "Statements of the sites", rows)


def _stated_by(site: Site) -> str:
    words = {
        Signature.HOLDS: f"signed by the key {fingerprint(site.stated.key)}",
        Signature.NONE: "a statement signed by nobody",
        Signature.WRONG: f"WRONG SIGNATURE, not of the key {fingerprint(site.stated.key)}",
    }[site.signed]
    return f"NOT OF THIS RUN: it {site.problem}; {words}" if site.problem else words


def rounds(run: RunFacts) -> Table:
    names = [*metrics_of(run.history[0].report)] if run.history else []
    return Table(
        "rounds",
        "The rounds",
        ("round", "epsilon", *names, "loss", *CLIENT_STATUSES, "time", "lost"),
        tuple(
            (
                str(one.report.round),
                epsilon(one.report.epsilon if run.private else math.inf),
                *(measured(one.measured(name)) for name in names),
                measured(one.report.loss),
                *map(str, one.counts),
                seconds(one.report.seconds),
                one.report.lost,
            )
            for one in run.history
        ),
    )


def metrics(run: RunFacts) -> Table:
    """Of all test data, of classes and subgroups, and of the sites' own test records with 95 % intervals."""
    tested, of_sites = "the server's", run.site_metrics
    if run.said.model == "best":
        tested = "the half of the server's that it was not chosen on"
    found: list[Row] = [(name, measured(value), "", tested) for name, value in run.metrics.items()]
    found.append(("loss", measured(run.said.loss), "", tested))
    found += [(name, "hidden" if v is None else f"{v:.4f}", "", tested) for name, v in run.by_part.items()]
    where = f"the sites' own, after round {run.said.rounds}"
    found += [
        (name, *_estimate(name, one), where) for name, one in (of_sites.metrics if of_sites else {}).items()
    ]
    rows = tuple(row for row in found if row[1] != measured(None))
    return Table("metrics", "Metrics, by test data", ("metric", "value", "95 %", "measured on"), rows)


def _estimate(name: str, one: Estimate) -> tuple[str, str]:
    form = ".0f" if name in _COUNTS else ".4f"
    if one.value is None or one.low is None or one.high is None:
        return "too few records", ""
    return f"{one.value:{form}}", f"{one.low:{form}} to {one.high:{form}}"


def settings(run: RunFacts) -> Table:
    rows = tuple(
        (key, asked, NOT_USED if key in _OF_EPSILON and not run.private else ran)
        for key, asked, ran in run.settings
    )
    caption = "Settings that are not the default of this page's fl-dp"
    return Table("settings", caption, ("key", "asked for", "what ran"), rows)
