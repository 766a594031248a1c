"""The tables of one run."""

import math
from collections.abc import Callable, Sequence

from fl_dp.kits.signed import Signature
from fl_dp.records import CLIENT_STATUSES, total_steps
from fl_dp.reporting.page import about_data
from fl_dp.reporting.page.facts import Client, DataSet, RunFacts, Setting, Site
from fl_dp.reporting.page.numbers import (
    NOT_USED,
    alone,
    charged,
    epsilon,
    known_epsilon,
    measured,
    number,
    seconds,
    size,
)
from fl_dp.reporting.page.over import knows_others, of_one_run, whose_limit
from fl_dp.reporting.page.pieces import Table
from fl_dp.reporting.page.round_facts import FEW, QUANTILES
from fl_dp.reporting.page.secure_sums import parts_hidden
from fl_dp.reporting.refuted import arithmetic_words

_OF_EPSILON = ("noise-multiplier", "max-grad-norm", "epsilon", "delta", "accountant")  # unused without one
_ALONE, _SEEN = "if the assumption fails", "against anyone who sees the parts"
_ENDS = 10  # clients at either end of a ranking
_QUANTILE_NAMES = ("least", "10 % have at most", "median", "90 % have at most", "largest")


def clients(run: RunFacts) -> Table:
    """Budgets and statuses at the end."""
    in_sums = run.epsilon_alone is not None
    return _of_clients(
        "clients",
        f"What each client's data have spent: epsilon of this run, of other runs as its {_claimant(run)}, "
        f"and of both; the budget is {whose_limit(run)} for both"
        + ("; a ledger that was made for this run alone knows of no other runs" if of_one_run(run) else ""),
        (
            "client",
            "this run",
            "other runs, as claimed",
            "together",
            "budget",
            "together, if all planned rounds run",
            *((_ALONE if parts_hidden(run) else _SEEN,) if in_sums else ()),
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
            _used(run, one, known_epsilon(one.budget)),
            _used(run, one, known_epsilon(one.planned_epsilon)),
            *((_alone(one),) if in_sums else ()),
            _used(run, one, number(one.delta)),
            number(one.rounds),
            _used(run, one, str(one.rounds_left)),
            one.status,
            one.reason,
        ),
    )


def _claimant(run: RunFacts) -> str:
    return "ledger shows" if run.local else "site claims"


def _steps_in_all(run: RunFacts) -> str:
    return f"steps in all: those of this run, and those of others as its {_claimant(run)}"


def _used(run: RunFacts, one: Client | DataSet, cell: str) -> str:
    """Cells about epsilon say nothing of data that were trained without one."""
    return cell if run.private or math.isfinite(one.epsilon) else NOT_USED


def _claimed(run: RunFacts, one: Client) -> str:
    """0 if all that its ledger shows is this run's and the ledger knows of other runs."""
    if not run.of_this_run or one.own_charges != one.charges:
        return known_epsilon(one.claimed_epsilon)
    return known_epsilon(0.0 if knows_others(run)[one.name] else None)


def _alone(one: Client) -> str:
    """Without secure sums both epsilons are the same."""
    return alone(one.epsilon if one.epsilon_alone is None else one.epsilon_alone)


def mechanisms(run: RunFacts) -> Table:
    """Noise, rate, batch and steps."""
    return _of_clients(
        "mechanisms",
        "Noise, sample rate, batch and steps of each client"
        + _of_allocation(run)
        + (": planned, not run" if run.released_nothing else ""),
        (
            "client",
            f"noise multiplier{'' if run.epsilon_alone is None else ' of the sum'}",
            f"sample rate (share of the {run.unit}s, each step)",
            f"declared size ({run.unit}s)",
            f"expected batch ({run.unit}s)",
            "steps of this run",
            _steps_in_all(run),
            "accountant",
            "arithmetic",
        ),
        run.clients,
        lambda one: (
            _noise(one),
            number(one.sample_rate),
            size(one.public_size),
            _batch(one),
            number(None if one.own_charges is None else total_steps(one.own_charges)),
            number(one.steps),
            _used(run, one, one.accountant),
            _used(run, one, arithmetic_words(one.arithmetic)),
        ),
    )


def _noise(one: Client) -> str:
    """Both ends, if the rounds of this run differ in noise."""
    found = {entry.noise_multiplier for entry in one.own_charges or ()}
    if len(found) > 1:
        return f"{number(max(found))} to {number(min(found))}"
    return number(one.noise_multiplier)


def _of_allocation(run: RunFacts) -> str:
    """How records were drawn, where it was not by Poisson sampling."""
    if not any(entry.pass_steps > 1 for one in run.clients for entry in one.own_charges or one.charges):
        return ""
    return f"; every {run.unit} in one step of each pass (random allocation)"


def ranked(run: RunFacts) -> tuple[Table, ...]:
    """For many clients: how epsilon is spread, and both ends of the ranking."""
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
    steps = _steps_in_all(run)
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
            f"The {_ENDS} largest and the {_ENDS} smallest",
            columns,
            rows,
            frozenset({"in the last round"}),
        ),
    )


def _told(run: RunFacts, one: Client) -> float:
    """The client's epsilon that enters the federation's."""
    return one.own_epsilon if run.of_this_run and one.own_epsilon is not None else one.epsilon


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
        frozenset({"lost"}),
    )


def reasons(run: RunFacts) -> Table:
    rows = tuple((status, reason, str(count)) for status, reason, count in run.reasons)
    return Table(
        "reasons", "Why clients did not train", ("what", "reason", "times"), rows, frozenset({"reason"})
    )


def data_sets(run: RunFacts) -> Table:
    """From the statements; without any, from the summary."""
    columns = ("client", "data", "declared size", "unit", "epsilon", "budget", "delta", "stated by")
    stated = [
        (one.client, about_data.named(one), *_account(run, one, one.unit), _stated_by(site))
        for site in run.sites
        for one in site.data
    ]
    known = {row[0] for row in stated}
    silent = [
        (one.name, about_data.operators_word(run), *_account(run, one, run.unit), "the server alone")
        for one in run.clients
        if one.name not in known
    ]
    words = frozenset({"data", "unit", "stated by"})
    return Table("data", "Data sets, by client", columns, tuple(stated + silent), words)


def _account(run: RunFacts, one: Client | DataSet, unit: str) -> tuple[str, ...]:
    return (
        size(one.public_size),
        unit,
        charged(one.epsilon, one.arithmetic),
        _used(run, one, known_epsilon(one.budget)),
        _used(run, one, number(one.delta)),
    )


def settings(run: RunFacts) -> Table:
    rows = tuple((one.key, one.asked, _what_ran(run, one)) for one in run.settings)
    columns = ("key", "asked for", "what was to run" if run.released_nothing else "what ran")
    return Table("settings", "Settings", columns, rows, frozenset(columns))


def _what_ran(run: RunFacts, one: Setting) -> str:
    """The range if each client had its own noise, as the setting itself then stays "auto"."""
    if not run.private and one.key in _OF_EPSILON:
        return NOT_USED
    found = [client.noise_multiplier for client in run.clients if client.noise_multiplier is not None]
    if one.key != "noise-multiplier" or one.became != "auto" or not found:
        return one.became
    least, largest = number(min(found)), number(max(found))
    return least if least == largest else f"{least} to {largest}, different for each client"


def _stated_by(site: Site) -> str:
    if site.problem:
        return "NOT OF THIS RUN"
    return {
        Signature.HOLDS: "a signed statement",
        Signature.NONE: "a statement signed by nobody",
        Signature.WRONG: "WRONG SIGNATURE",
    }[site.signed]


def _batch(one: Client) -> str:
    """Expected batch size: rate times units."""
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
