"""The table of the clients' budgets that the console shows at the end of a run."""

import math
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console

from fl_dp.clean_text import clean
from fl_dp.config.data import RECORD
from fl_dp.records import assuming
from fl_dp.reporting.console import alone_words, marked, rounded_up, times
from fl_dp.reporting.reports import BEYOND_USE, NOT_PRIVATE, ClientReport, Summary
from fl_dp.reporting.table import print_table
from fl_dp.reporting.wording import folded, some

ENDS = 5  # clients shown at either end of a table that is too long
_MOST_NAME, _LONGEST = 24, 4096  # characters of a client's name in a line, and of a line


def print_budgets(summary: Summary, console: Console | None = None) -> None:
    """Print a table of the clients' budgets, the largest epsilon first.

    If there are many clients, only both ends are shown, with the number left out. What a site claims about
    other runs has columns of its own.
    """
    console = console or Console(file=sys.stdout)
    clients, private = summary.clients, summary.private
    if not clients:
        return
    unit = summary.federation.unit if summary.federation else RECORD
    title = f"{NOT_PRIVATE}: trained without protection, by client"
    if private:
        title = f"Privacy spent{'' if unit == RECORD else f' for one {unit}'}, by client"
    columns, rows = budget_table(summary)
    print_table(title, columns, rows, left=("client", "last round"), console=console)
    lines = reason_lines(clients)
    if private:
        lines += spread_lines(summary)
    if "claimed" in columns:
        lines.append("claimed: what the ledger shows of other runs, as its site says; total: with this run")
    if alone := alone_line(summary):
        lines.append(alone)
    lines += retirement_lines(clients)
    for line in lines:
        for part in folded(clean(line, _LONGEST), console.width - len(marked("", private=private))):
            console.print(marked(part, private=private), soft_wrap=True, markup=False, highlight=False)


def reason_lines(clients: Mapping[str, ClientReport]) -> list[str]:
    """Why clients did not train in the last round, each reason once; at most the first few reasons."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in sorted(clients, key=natural):
        if clients[name].reason:
            found.setdefault((clients[name].status, clients[name].reason), []).append(name)
    lines = [f"{named(names)} {status}: {reason}" for (status, reason), names in found.items()]
    return _first_few(lines, "reasons")


def _first_few(lines: list[str], what: str) -> list[str]:
    """The first few lines; all of them if "1 more" would be as long as the line that it hides."""
    hidden = len(lines) - ENDS
    return lines if hidden <= 1 else [*lines[:ENDS], f"... and {hidden} more {what}"]


def named(names: Sequence[str]) -> str:
    """ "client a", "clients a, b and 3 more"."""
    return f"{'client' if len(names) == 1 else 'clients'} {some([clean(one, _MOST_NAME) for one in names])}"


def spread_lines(summary: Summary) -> Iterator[str]:
    """How the epsilons were computed, with the clients concerned, and the largest, median and smallest."""
    clients = summary.counted
    ways: dict[str, list[str]] = {}
    for name in sorted(clients, key=natural):
        one = clients[name]
        arithmetic = assuming(one.arithmetic, shortly=True)
        way = f"epsilon at delta {one.delta:g}, by {one.accountant}, {arithmetic}"
        ways.setdefault(way, []).append(name)
    for way, names in ways.items():
        yield way if len(ways) == 1 else f"{way}, {named(names)}"
    if len(clients) > 1:
        spent = [client.cost.epsilon for client in clients.values()]
        values = {"largest": max(spent), "median": statistics.median(spent), "smallest": min(spent)}
        words = ", ".join(f"{name} {rounded_up(value)}" for name, value in values.items())
        budgets = {client.budget for client in clients.values()}
        yield f"epsilon: {words}" + (f", of {rounded_up(max(budgets))}" if len(budgets) == 1 else "")


def retirement_lines(clients: Mapping[str, ClientReport]) -> list[str]:
    """A line for each client whose ledger has retired accounts; at most the first few clients."""
    lines = [
        f"client {name}: its ledger was retired {times(clients[name].retired)}; it shows only what came after"
        for name in sorted(clients, key=natural)
        if clients[name].retired
    ]
    return _first_few(lines, "clients whose ledgers were retired")


def budget_table(summary: Summary) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heads and rows of the table, the largest epsilon first. A row of one cell counts the clients left out.

    If data were in secure sums, "alone" is the epsilon if their assumption fails. If a ledger shows more than
    this run, there are columns for what its site claims.
    """
    clients = summary.clients
    in_sums = any(client.epsilon_alone is not None for client in clients.values())
    claims = any(client.this_run for client in clients.values())
    table = []
    for name, client in sorted(clients.items(), key=lambda item: (-item[1].cost.epsilon, natural(item[0]))):
        cost, own = client.cost, client.this_run
        bare = not summary.private and cost.epsilon == math.inf
        row = {"client": clean(name), "this run": NOT_PRIVATE if bare else rounded_up(cost.epsilon)}
        if in_sums:
            row["alone"] = alone_words(cost.if_sums_fail)
        if claims:
            row["claimed"] = rounded_up(own.claimed_epsilon if own else 0.0)
            row["total"] = rounded_up(client.epsilon)
        table.append(
            {
                **row,
                "of": "-" if bare else rounded_up(client.budget),
                "steps": str(own.taken if own else client.steps),
                "rounds": str(client.rounds),
                "left": str(client.rounds_left + client.rounds_beyond),
                "last round": client.status,
            }
        )
    rows = [tuple(row.values()) for row in table]
    hidden = len(rows) - 2 * ENDS
    if hidden > 1:  # a row that says "1 more" would be as long as the one that it hides
        rows = [*rows[:ENDS], (f"... {hidden:,} more clients",), *rows[-ENDS:]]
    return tuple(table[0]), rows


def alone_line(summary: Summary) -> str:
    """Explains the two epsilons if data were in secure sums; else empty."""
    costs = [one.cost.epsilon_alone for one in summary.counted.values()]
    found = [one for one in costs if one is not None]
    if not found:
        return ""
    useful = [one for one in found if one <= BEYOND_USE]
    then = f'"alone" holds: {alone_words(max(useful))} at most' if useful else "no useful epsilon holds"
    fails = "than was assumed. If that fails"
    if summary.masked is False:
        fails = "than was assumed. No masks were used: whoever ran this saw each part, and against them"
    return (
        "epsilon holds against everybody who sees no more than sums of clients, if no more members collude "
        f"{fails}, {then}{', and no useful one where it says none' if 0 < len(useful) < len(found) else ''}"
    )


def natural(name: str) -> tuple[int, str]:
    """A sort key: names that are numbers come first, in numeric order."""
    return (int(name) if name.isdecimal() and len(name) < 300 else sys.maxsize, name)
