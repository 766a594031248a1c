"""What the console shows: one line a round, and the clients' budgets at the end.

Both are made from the JSON of `reports`, so that a program that follows rounds.jsonl can print the same.
"""

import statistics
import sys
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fl_dp.config.data import RECORD
from fl_dp.records import CLIENT_STATUSES, REFUTED
from fl_dp.reporting.refuted import ADVICE, arithmetic_words
from fl_dp.reporting.reports import BEYOND_USE, NOT_PRIVATE, epsilon_from_json

ENDS = 5  # clients shown at either end of a table that is too long to be shown whole
_LEAST_POWER = -5  # of ten, of a last digit that is written out
_MOST_POWER = 15  # of a first digit that is written out
ALONE = "alone"
COLUMNS = ("client", "epsilon", "of", "delta", "by", "arithmetic", "steps", "rounds", "left", "last round")


def round_line(record: Mapping[str, Any], *, rounds: int, budget: float) -> str:
    """The line of one round: `record` from rounds.jsonl, `rounds` planned.

    budget: the run's epsilon, for records of an older fl_dp, which do not have each client's budget.
    """
    states = [client["status"] for client in record["clients"].values()]
    running_out = len(record["federation"]["running_out"])
    counts = ", ".join(f"{name} {states.count(name)}" for name in CLIENT_STATUSES if name != "idle")
    parts = (
        f"round {record['round']}/{rounds}",
        privacy_words(record, budget),
        *_evaluated(record),
        counts + _scaled(record) + (f", {running_out} will run out of budget" if running_out else ""),
        f"{record['seconds']:.1f} s",
        *_lost(record),
    )
    return "  ".join(parts)


def _scaled(record: Mapping[str, Any]) -> str:
    count = sum(client.get("scaled", 1.0) < 1.0 for client in record["clients"].values())
    return f", scaled down {count}" if count else ""


def _lost(record: Mapping[str, Any]) -> tuple[str, ...]:
    why = record.get("lost")  # older reports have none
    return (f"LOST, and paid for: {why}",) if why else ()


def _evaluated(record: Mapping[str, Any]) -> tuple[str, ...]:
    """The first of the task's metrics, accuracy where there is none, and the loss; nothing without a test."""
    if record["loss"] is None and record["accuracy"] is None and not record.get("metrics"):
        return ()
    name, value = next(iter(record.get("metrics", {}).items()), ("accuracy", record["accuracy"]))
    return f"{name} {_number(value, '.3f')}", f"loss {_number(record['loss'], '.2f')}"


def privacy_words(record: Mapping[str, Any], budget: float) -> str:
    """The guarantee in a round's line: epsilon of the budget, for whom, at which delta, by whose account."""
    if not record["private"]:
        return f"{NOT_PRIVATE} (no epsilon holds)"
    delta = _number(record["delta"], "g")
    by = ", ".join(record["federation"]["accountants"])
    how = f"delta {delta}, by {by}, arithmetic {arithmetic_words(record['federation']['arithmetic'])}"
    allowed = _allowed(record, budget)
    alone = ""
    if "epsilon_alone" in record["federation"]:
        alone = f"; alone {alone_words(record['federation']['epsilon_alone'])}"
    return f"eps {rounded_up(record['epsilon'])} of {rounded_up(allowed)}{of_unit(record)} ({how}{alone})"


def _allowed(record: Mapping[str, Any], budget: float) -> float:
    """The budget that the record's epsilon is held against: that of the client whose epsilon it is.

    Of equal epsilons the one with the smallest budget. Where a person's epsilons at several clients are added
    up, so are the budgets of these clients.
    """
    clients = record.get("clients", {}).values()  # a forecast has none
    if not clients or any(client.get("budget") is None for client in clients):
        return budget
    most = sorted(clients, key=lambda client: (-epsilon_from_json(client["epsilon"]), client["budget"]))
    return sum(float(client["budget"]) for client in most[: record["federation"]["clients_per_person"]])


def of_unit(report: Mapping[str, Any]) -> str:
    """Whose the epsilons are, where that is not one record's."""
    unit = (report.get("federation") or {}).get("unit", RECORD)  # older reports have none
    return "" if unit == RECORD else f" for one {unit}"


def marked(text: str, *, private: bool) -> str:
    """`text`, with NOT PRIVATE before it unless the run is private."""
    return text if private else f"{NOT_PRIVATE}: {text}"


def rounded_up(epsilon: float | None) -> str:
    """Rounded up: what is printed is never below what was computed. None: not finite.

    Two decimals, and below 0.1 two digits: 1.84, 0.013, 0.0010, 2.5e-7.
    """
    if epsilon is None or epsilon == float("inf"):
        return "inf"
    # repr, not the binary value: 1.1 is then 1.10 and not 1.11, and reads back as 1.1
    exact = Decimal(repr(float(epsilon)))
    last = -2 if not exact else min(-2, exact.adjusted() - 1)  # the power of ten of the last digit
    if exact.adjusted() > _MOST_POWER:  # of a damaged file: it would have hundreds of digits
        last = exact.adjusted() - 1
    text = exact.quantize(Decimal(1).scaleb(last), ROUND_CEILING)
    return str(text) if _LEAST_POWER <= last < 0 else f"{text:.1e}"


def alone_words(epsilon: float | None) -> str:
    """An epsilon that holds if the assumption behind secure sums fails: "none" where it is of no use.

    None: not finite, as JSON has it.
    """
    return "none" if epsilon is None or epsilon > BEYOND_USE else rounded_up(epsilon)


def alone_line(clients: Mapping[str, Mapping[str, Any]]) -> str:
    """Which epsilon is which, where data were in secure sums; else empty."""
    found = [epsilon_from_json(one["epsilon_alone"]) for one in clients.values() if "epsilon_alone" in one]
    if not found:
        return ""
    return (
        "epsilon holds against all who see no more than sums of clients, with no more members working "
        f'together than was assumed. If that fails, "alone" holds: {alone_words(max(found))} at most'
        f"{', and none where it says none' if max(found) > BEYOND_USE else ''}"
    )


def print_budgets(
    clients: Mapping[str, Mapping[str, Any]],
    console: Console | None = None,
    *,
    private: bool,
    whose: str = "",
) -> None:
    """Print a table of the clients' budgets, `clients` from summary.json; private: whether the run was.

    whose: `of_unit` of the summary.

    The largest epsilon first. Of many clients only both ends are shown, with the number left out.
    "by" names the accountant whose epsilon it is; "arithmetic" is the weakest that was paid under, see
    `records.PAID_UNDER`. On a pipe the table is plain text in columns.
    """
    console = console or Console(file=sys.stdout)
    if not clients:
        return
    rows, columns = budget_rows(clients, private=private), budget_columns(clients)
    title = (
        f"Privacy spent{whose}, by client"
        if private
        else f"{NOT_PRIVATE}: trained without protection, by client"
    )
    if console.is_terminal:
        console.print(_table(title, columns, rows))
    else:
        console.print(_plain(title, columns, rows), soft_wrap=True, markup=False, highlight=False)
    if len(clients) > 1:
        console.print(
            marked(spread_line(clients), private=private), soft_wrap=True, markup=False, highlight=False
        )
    for line in filter(None, (alone_line(clients), refuted_line(clients), *retirement_lines(clients))):
        console.print(marked(line, private=private), soft_wrap=True, markup=False, highlight=False)


def spread_line(clients: Mapping[str, Mapping[str, Any]]) -> str:
    """Largest, median and least epsilon of the clients, the accountants that have computed them, and how
    sure the arithmetic is."""
    spent = [epsilon_from_json(client["epsilon"]) for client in clients.values()]
    values = {"largest": max(spent), "median": statistics.median(spent), "least": min(spent)}
    by = ", ".join(sorted({client["accountant"] for client in clients.values()}))
    found = {client["arithmetic"] for client in clients.values()}
    arithmetic = " or ".join(map(arithmetic_words, sorted(found)))
    return f"epsilon, by {by}, arithmetic {arithmetic}: " + ", ".join(
        f"{name} {rounded_up(value)}" for name, value in values.items()
    )


def refuted_line(clients: Mapping[str, Mapping[str, Any]]) -> str:
    """What the mark at the word stands for; empty where no client has it."""
    found = REFUTED in {client["arithmetic"] for client in clients.values()}
    return f"{arithmetic_words(REFUTED)}: {ADVICE}" if found else ""


def retirement_lines(clients: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line for each client in whose ledger accounts were retired; of many clients the first few."""
    retired = {name: client["retired"] for name, client in clients.items() if client["retired"]}
    lines = [
        f"client {name}: its ledger was retired {times(retired[name])}; epsilon counts only what came after"
        for name in sorted(retired, key=_natural)
    ]
    hidden = len(lines) - ENDS
    if hidden <= 1:
        return lines
    return [*lines[:ENDS], f"... and {hidden} more clients whose ledgers were retired"]


def times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def budget_columns(clients: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """COLUMNS; where data of a client were in secure sums, with what holds if their assumption fails."""
    return (*COLUMNS[:2], ALONE, *COLUMNS[2:]) if _any_alone(clients) else COLUMNS


def _any_alone(clients: Mapping[str, Mapping[str, Any]]) -> bool:
    return any("epsilon_alone" in client for client in clients.values())


def budget_rows(clients: Mapping[str, Mapping[str, Any]], *, private: bool) -> list[tuple[str, ...]]:
    """Cells of the table, a tuple a row, as in `budget_columns`; one of one cell counts what is left out."""
    ordered = sorted(
        clients.items(), key=lambda item: (-epsilon_from_json(item[1]["epsilon"]), _natural(item[0]))
    )
    alone = _any_alone(clients)
    rows = [_row(name, client, private, alone) for name, client in ordered]
    hidden = len(rows) - 2 * ENDS
    if hidden <= 1:  # a row that says "1 more" would be as long as the one that it hides
        return rows
    return [*rows[:ENDS], (f"... {hidden} more clients",), *rows[-ENDS:]]


def _row(name: str, client: Mapping[str, Any], private: bool, alone: bool) -> tuple[str, ...]:
    reason = f": {client['reason']}" if client["reason"] else ""
    by = client["accountant"]
    spent: tuple[str, ...] = (
        rounded_up(client["epsilon"]),
        rounded_up(client["budget"]),
        f"{client['delta']:g}",
        by,
        arithmetic_words(client["arithmetic"]),
    )
    if not private and client["epsilon"] is None:
        spent = (NOT_PRIVATE, "-", "-", "-", "-")
    if alone:
        spent = (spent[0], alone_words(client.get("epsilon_alone", client["epsilon"])), *spent[1:])
    return (
        name,
        *spent,
        str(client["steps"]),
        str(client["rounds"]),
        str(client["rounds_left"] + client.get("rounds_beyond", 0)),
        client["status"] + reason,
    )


def _table(title: str, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    table = Table(title=title)
    for position, column in enumerate(columns):
        table.add_column(column, justify="right" if 0 < position < len(columns) - 1 else "left")
    for row in rows:
        table.add_row(*map(Text, row))  # Text: what a client says is no markup
    return table


def _plain(title: str, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    whole = [row for row in rows if len(row) == len(columns)]
    widths = [max(len(row[i]) for row in (columns, *whole)) for i in range(len(columns))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()
        for row in (columns, *rows)
    ]
    return "\n".join((title, *lines))


def _natural(name: str) -> tuple[int, str]:
    """A sort key: clients whose names are numbers come in the order of their numbers, before all others."""
    return (int(name) if name.isdecimal() else sys.maxsize, name)


def _number(value: float | None, form: str) -> str:
    return "n/a" if value is None else format(value, form)
