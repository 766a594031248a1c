"""The six tables of a page: clients, their noise, statements, rounds, metrics, settings."""

import math
from dataclasses import dataclass

from fl_dp.kits.keys import fingerprint
from fl_dp.kits.signed import Signature
from fl_dp.records import CLIENT_STATUSES, total_steps
from fl_dp.reporting.page.facts import AccountOfTests, Client, RunFacts, Site
from fl_dp.reporting.page.numbers import (
    NOT_USED,
    UNKNOWN,
    alone,
    epsilon,
    known_epsilon,
    measured,
    number,
    seconds,
    size,
)

LISTED = 200  # rows on the page
_OF_EPSILON = ("noise-multiplier", "max-grad-norm", "epsilon", "delta", "accountant")  # unused without one
_COUNTS = ("records", "invalid")  # with noise; shown without decimals
_WORDS = frozenset(
    ("in the last round", "reason", "accountant", "arithmetic", "data", "stated by", "commitment", "lost",
     "metric", "measured on", "key", "asked for", "what ran")
)  # fmt: skip
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


def tables(run: RunFacts) -> dict[str, Table]:
    made = (clients(run), noise(run), statements(run), rounds(run), metrics(run), settings(run))
    return {one.key: one for one in made}


def clients(run: RunFacts) -> Table:
    """What each client's data have spent. Of many, those who have spent most in this run come first."""
    sums = "if the assumption fails" if run.parts_hidden else "against anyone who sees the parts"
    in_sums, tests = run.epsilon_alone is not None, {one.client: one for one in run.tests}
    known = run.knows_others()
    shown = run.clients
    if len(shown) > LISTED:
        shown = tuple(sorted(shown, key=lambda one: -one.own_epsilon))

    def row(one: Client) -> Row:
        return (
            one.name,
            epsilon(one.own_epsilon),
            _claimed(one, known[one.name]),
            epsilon(one.epsilon),
            _used(run, one, known_epsilon(one.budget)),
            _used(run, one, known_epsilon(one.planned_epsilon)),
            *((alone(one.epsilon if one.epsilon_alone is None else one.epsilon_alone),) if in_sums else ()),
            *((_of_tests(tests.pop(one.name, None)),) if run.tests else ()),
            _used(run, one, number(one.delta)),
            f"{number(one.rounds)} ({one.rounds_left} left)",
            one.status,
            one.reason,
        )

    columns = (
        "client", "this run", "other runs", "together", "budget", "if all planned rounds run",
        *((sums,) if in_sums else ()), *(("its test records",) if run.tests else ()), "delta", "rounds",
        "in the last round", "reason",
    )  # fmt: skip
    rows = [row(one) for one in shown]
    for name, one in tests.items():  # of no client that is listed
        cells = {"client": name, "its test records": _of_tests(one)}
        rows.append(tuple(cells.get(column, "") for column in columns))
    return Table("clients", "What each client's data have spent, as epsilon", columns, tuple(rows))


def _claimed(one: Client, knows_others: bool | None) -> str:
    """0 if all that its ledger shows is this run's and the ledger knows of other runs."""
    if one.own != one.charges:
        return known_epsilon(one.claimed_epsilon)
    return known_epsilon(0.0 if knows_others else None)


def _used(run: RunFacts, one: Client, cell: str) -> str:
    """Cells about epsilon say nothing of data that were trained without one."""
    return cell if run.private or math.isfinite(one.epsilon) else NOT_USED


def _of_tests(one: AccountOfTests | None) -> str:
    """What evaluations have cost; an upper bound where it is not known whether the site has paid."""
    if one is None or one.epsilon is None:
        return "none"
    most = "at most " if one.unheard and math.isfinite(one.epsilon) else ""
    own = "" if one.epsilon_alone is None else f", alone {alone(one.epsilon_alone)}"
    return f"{most}{epsilon(one.epsilon)} of {known_epsilon(one.budget)} at delta {number(one.delta)}{own}"


def noise(run: RunFacts) -> Table:
    columns = (
        "client", f"noise multiplier{'' if run.epsilon_alone is None else ' of the sum'}", "sample rate",
        f"declared size ({run.unit}s)", "expected batch", "steps of this run", "steps in all", "accountant",
        "arithmetic",
    )  # fmt: skip
    rows = tuple(
        (
            one.name,
            _noise(one),
            number(one.sample_rate),
            size(one.public_size),
            number(one.sample_rate * one.public_size if one.sample_rate and one.public_size else None),
            number(total_steps(one.own)),
            number(one.steps),
            _used(run, one, one.accountant),
            _used(run, one, one.arithmetic),
        )
        for one in run.clients
    )
    caption = f"Noise and steps{': planned, not run' if run.released_nothing else ''}"
    return Table("noise", caption, columns, rows)


def _noise(one: Client) -> str:
    """Both ends, if the rounds of this run differ in noise."""
    found = {entry.noise_multiplier for entry in one.own}
    if len(found) > 1:
        return f"{number(max(found))} to {number(min(found))}"
    return number(one.noise_multiplier)


def statements(run: RunFacts) -> Table:
    """What sites have stated, and clients of whom nobody has stated anything."""
    stated = [
        (
            one.client,
            f"{one.name} ({one.kind})" if one.kind else one.name,
            f"{size(one.public_size)} {one.unit}s",
            epsilon(one.epsilon),
            known_epsilon(one.budget),
            number(one.delta),
            _stated_by(site),
            site.commitment,
        )
        for site in run.sites
        for one in site.data
    ]
    unread = [(UNKNOWN, *[""] * 5, _stated_by(site), "") for site in run.sites if not site.data]
    known = {row[0] for row in stated}
    silent = [(one.name, *[""] * 5, "the server alone", "") for one in run.clients if one.name not in known]
    columns = ("client", "data", "declared size", "epsilon", "budget", "delta", "stated by", "commitment")
    return Table("statements", "Statements of the sites", columns, (*stated, *unread, *silent))


def _stated_by(site: Site) -> str:
    words = {
        Signature.HOLDS: f"signed by the key {fingerprint(site.key)}",
        Signature.NONE: "a statement signed by nobody",
        Signature.WRONG: f"WRONG SIGNATURE, not of the key {fingerprint(site.key)}",
    }[site.signed]
    return f"NOT OF THIS RUN: it {site.problem}; {words}" if site.problem else words


def rounds(run: RunFacts) -> Table:
    names = [*run.history[0].metrics] if run.history else []
    return Table(
        "rounds",
        "The rounds",
        ("round", "epsilon", *names, "loss", *CLIENT_STATUSES, "time", "lost"),
        tuple(
            (
                str(one.number),
                epsilon(one.epsilon, private=run.private),
                *(measured(one.metrics.get(name)) for name in names),
                measured(one.loss),
                *map(str, one.counts),
                seconds(one.seconds),
                one.lost,
            )
            for one in run.history
        ),
    )


def metrics(run: RunFacts) -> Table:
    """Of all test data, of classes and subgroups, and of the sites' own test records with 95 % intervals."""
    tested, of_sites = "the server's", run.site_metrics
    if run.kept == "best":
        tested = "the half of the server's that it was not chosen on"
    found: list[Row] = [(name, measured(value), "", tested) for name, value in run.metrics.items()]
    found.append(("loss", measured(run.loss), "", tested))
    found += [(name, "hidden" if v is None else f"{v:.4f}", "", tested) for name, v in run.by_part]
    for one in of_sites.estimates if of_sites else ():
        where = f"the sites' own, after round {of_sites.number if of_sites else 0}"
        found.append(
            (one.name, _estimate(one.name, one.value), _interval(one.name, one.low, one.high), where)
        )
    rows = tuple(row for row in found if row[1] != measured(None))
    return Table("metrics", "Metrics, by test data", ("metric", "value", "95 %", "measured on"), rows)


def _estimate(name: str, value: float | None) -> str:
    form = ".0f" if name in _COUNTS else ".4f"
    return "too few records" if value is None else f"{value:{form}}"


def _interval(name: str, low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{_estimate(name, low)} to {_estimate(name, high)}"


def settings(run: RunFacts) -> Table:
    rows = tuple(
        (key, asked, NOT_USED if key in _OF_EPSILON and not run.private else ran)
        for key, asked, ran in run.settings
    )
    caption = "Settings that are not the default of this page's fl-dp"
    return Table("settings", caption, ("key", "asked for", "what ran"), rows)
