"""The tables of one run."""

import math
from collections.abc import Callable, Sequence

from fl_dp.kits.signed import Signature
from fl_dp.records import CLIENT_STATUSES, total_steps
from fl_dp.reporting.page import about_data
from fl_dp.reporting.page.about_data import operators_word
from fl_dp.reporting.page.facts import Client, Run, Setting, Site
from fl_dp.reporting.page.numbers import (
    Shown,
    alone,
    charged,
    epsilon,
    known_epsilon,
    measured,
    number,
    seconds,
    size,
)
from fl_dp.reporting.page.over import of_one_run
from fl_dp.reporting.page.round_facts import FEW, QUANTILES
from fl_dp.reporting.page.table import Table
from fl_dp.reporting.refuted import arithmetic_words

_ENDS = 10  # clients at either end of a ranking
_QUANTILE_NAMES = ("least", "10 % have at most", "median", "90 % have at most", "largest")


def clients(run: Run) -> Table:
    """Budgets and states at the end."""
    in_sums = run.epsilon_alone is not None
    return _of_clients(
        "clients",
        "What each client's data have spent: epsilon of this run, of others as its site claims, and of both; "
        "the budget is its own site's limit for both"
        + ("; a ledger that was made for this run alone knows of no others" if of_one_run(run) else ""),
        (
            "client",
            "this run",
            "other runs, as claimed",
            "together",
            "budget",
            "together, if all planned rounds run",
            *(("if the assumption fails",) if in_sums else ()),
            "delta (a probability)",
            "rounds",
            "rounds left",
            "in the last round",
            "reason",
        ),
        run.clients,
        lambda one: (
            known_epsilon(one.own_epsilon),
            _claimed(run, one),
            charged(one.epsilon, one.arithmetic),
            known_epsilon(one.budget),
            known_epsilon(one.planned_epsilon),
            *((_alone(one),) if in_sums else ()),
            number(one.delta),
            number(one.rounds),
            str(one.rounds_left),
            one.status,
            one.reason,
        ),
    )


def _claimed(run: Run, one: Client) -> Shown:
    """Nothing, where all that its ledger shows is this run's."""
    known = run.of_this_run and one.own_charges == one.charges
    return epsilon(0.0) if known else known_epsilon(one.claimed_epsilon)


def _alone(one: Client) -> Shown:
    """Of data that were in no secure sum both epsilons are one."""
    return alone(one.epsilon if one.epsilon_alone is None else one.epsilon_alone)


def mechanisms(run: Run) -> Table:
    """Noise, rate, batch and steps."""
    return _of_clients(
        "mechanisms",
        "Noise, rate, batch and steps of each client",
        (
            "client",
            "noise multiplier",
            f"sample rate (share of the {run.unit}s, each step)",
            f"declared size ({run.unit}s)",
            f"expected batch ({run.unit}s)",
            "steps of this run",
            "steps in all, as the server counts them",
            "accountant",
            "arithmetic",
        ),
        run.clients,
        lambda one: (
            number(one.noise_multiplier),
            number(one.sample_rate),
            size(one.public_size),
            _batch(one),
            number(None if one.own_charges is None else total_steps(one.own_charges)),
            number(one.steps),
            one.accountant,
            arithmetic_words(one.arithmetic),
        ),
    )


def ranked(run: Run) -> tuple[Table, ...]:
    """Of many clients: how epsilon is spread, and both ends."""
    if len(run.clients) <= FEW:
        return ()
    order = sorted(run.counted, key=lambda one: -_told(run, one))
    if not order:
        return ()
    values = [_told(run, one) for one in reversed(order)]
    spread = tuple(
        (name, epsilon(values[math.ceil(share * (len(values) - 1))]))
        for name, share in zip(_QUANTILE_NAMES, QUANTILES, strict=True)
    )
    ends = [*order[:_ENDS], *order[-_ENDS:]]
    steps = "steps in all, as the server counts them"
    columns = ("client", "epsilon", "budget", steps, f"declared size ({run.unit}s)", "in the last round")
    rows = tuple(
        (
            one.name,
            epsilon(_told(run, one)) if run.of_this_run else charged(one.epsilon, one.arithmetic),
            known_epsilon(one.budget),
            str(one.steps),
            size(one.public_size),
            one.status,
        )
        for one in ends
    )
    return (
        Table("spread", f"Epsilon of {len(order):,} clients", ("clients", "epsilon"), spread),
        Table(
            "ends",
            f"The {_ENDS} largest and the {_ENDS} least",
            columns,
            rows,
            frozenset({"in the last round"}),
        ),
    )


def _told(run: Run, one: Client) -> float:
    """The epsilon that the federation's is made of."""
    return one.own_epsilon if run.of_this_run and one.own_epsilon is not None else one.epsilon


def rounds(run: Run) -> Table:
    names = [name for name, _ in run.history[0].metrics] if run.history else []
    return Table(
        "rounds",
        "The rounds",
        ("round", "epsilon", *names, "loss", *CLIENT_STATUSES, "time", "lost"),
        tuple(
            (
                str(one.number),
                epsilon(one.epsilon, private=run.private),
                *(measured(dict(one.metrics).get(name)) for name in names),
                measured(one.loss),
                *map(str, one.counts),
                seconds(one.seconds),
                one.lost,
            )
            for one in run.history
        ),
        frozenset({"lost"}),
    )


def reasons(run: Run) -> Table:
    rows = tuple((status, reason, str(count)) for status, reason, count in run.reasons)
    return Table(
        "reasons", "Why clients did not train", ("what", "reason", "times"), rows, frozenset({"reason"})
    )


def data_sets(run: Run) -> Table:
    """From the statements; from the summary where there are none."""
    columns = ("client", "data", "declared size", "unit", "epsilon", "budget", "delta", "stated by")
    stated = [
        (
            one.client,
            about_data.named(one),
            size(one.public_size),
            one.unit,
            charged(one.epsilon, one.arithmetic),
            epsilon(one.budget),
            number(one.delta),
            _stated_by(site),
        )
        for site in run.sites
        for one in site.data
    ]
    known = {row[0] for row in stated}
    silent = [
        (
            one.name, operators_word(run), size(one.public_size),
            run.unit, charged(one.epsilon, one.arithmetic), known_epsilon(one.budget), number(one.delta),
            "the server alone",
        )
        for one in run.clients if one.name not in known
    ]  # fmt: skip
    words = frozenset({"data", "unit", "stated by"})
    return Table("data", "Data sets, by client", columns, tuple(stated + silent), words)


def settings(run: Run) -> Table:
    rows = tuple((one.key, one.asked, _what_ran(run, one)) for one in run.settings)
    columns = ("key", "asked for", "what ran")
    return Table("settings", "Settings", columns, rows, frozenset(columns))


def _what_ran(run: Run, one: Setting) -> str:
    """Where each client had a noise of its own, the range: the setting itself then stays "auto"."""
    found = [client.noise_multiplier for client in run.clients if client.noise_multiplier is not None]
    if one.key != "noise-multiplier" or one.became != "auto" or not found:
        return one.became
    least, largest = number(min(found)), number(max(found))
    return least if least == largest else f"{least} to {largest}, of each client its own"


def _stated_by(site: Site) -> str:
    if site.problem:
        return "NOT OF THIS RUN"
    return {
        Signature.HOLDS: "a statement, signed",
        Signature.NONE: "a statement, signed by nobody",
        Signature.WRONG: "WRONG SIGNATURE",
    }[site.signed]


def _batch(one: Client) -> Shown:
    """Its expected size: rate times units."""
    if one.sample_rate is None or not one.public_size:
        return number(None)
    return number(one.sample_rate * one.public_size)


def _of_clients(
    key: str,
    caption: str,
    columns: tuple[str, ...],
    found: Sequence[Client],
    cells: Callable[[Client], tuple[str, ...]],
) -> Table:
    rows = tuple((one.name, *cells(one)) for one in found)
    return Table(
        key, caption, columns, rows, frozenset({"in the last round", "reason", "accountant", "arithmetic"})
    )
