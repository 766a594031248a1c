"""How far a run is, as a terminal shows it: bars for rounds, clients and budgets."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fl_dp.clean_text import clean
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.reports import NOT_PRIVATE, counted_clients, counts_this_run, epsilon_from_json
from fl_dp.reporting.run_progress import RunProgress, in_words, seconds_left
from fl_dp.reporting.wording import counted, rough_duration

MOST_CLIENTS = 6  # with a bar of their own
_BAR_WIDTH, _NAME_WIDTH = 30, 20

Bar = tuple[str, float, float, str]  # a label, how much of how much, and both in words


def rendered(progress: RunProgress, now: float) -> RenderableType:
    """now: Unix time. Text from clients is no markup, and has no control characters."""
    table = Table.grid(padding=(0, 1))
    for label, done, total, words in bars(progress, now):
        table.add_row(
            Text(label), ProgressBar(total=total, completed=min(done, total), width=_BAR_WIDTH), Text(words)
        )
    if progress.server_round:
        return table
    elapsed = now - progress.since
    waiting = f" ({rough_duration(elapsed)})" if elapsed >= 2 else ""
    return Group(table, Text(f"{in_words(progress)}{waiting}"))


def bars(progress: RunProgress, now: float) -> list[Bar]:
    """What there is to show by now."""
    found: list[Bar] = []
    if progress.rounds:
        found.append(("rounds", progress.over, progress.rounds, _rounds(progress, now)))
    if progress.server_round:
        found.append(("clients", progress.answered, progress.asked or 1, _clients(progress)))
    if progress.last is not None and progress.budget is not None:
        found += _budgets(progress.last, progress.budget)
    return found


def _rounds(progress: RunProgress, now: float) -> str:
    left = seconds_left(progress, now)
    words = f"{progress.over} of {progress.rounds} are over"
    return words if left is None else f"{words}, about {rough_duration(left)} left"


def _clients(progress: RunProgress) -> str:
    asked = counted(progress.asked, "client")
    words = f"round {progress.server_round}: {progress.answered} of {asked} have answered"
    return f"{words}, {progress.speed:,.0f} records/s" if progress.speed else words


def _budgets(record: Mapping[str, Any], budget: float) -> list[Bar]:
    """The federation's epsilon, and what each client's ledger shows; of many clients the ends and the middle
    of what the federation's is made of.
    """
    if not record["private"]:
        return [("epsilon", 0.0, 1.0, f"{NOT_PRIVATE} (no epsilon holds)")]
    together, each = record["federation"], record["clients"]
    whose = "in this run" if counts_this_run(record) else "of the federation"
    found = [_budget("epsilon", record["epsilon"], budget, whose)]
    if len(each) <= MOST_CLIENTS:
        return found + [
            _budget(f"  {_name(name)}", one["epsilon"], one.get("budget") or budget)
            for name, one in each.items()
        ]
    words = f"of {len(counted_clients(record)):,} clients"
    return found + [
        _budget(f"  {name}", together[name], budget, words) for name in ("largest", "median", "least")
    ]


def _budget(label: str, epsilon: float | None, budget: float, whose: str = "") -> Bar:
    words = f"{rounded_up(epsilon)} of {rounded_up(budget)}"
    return label, min(epsilon_from_json(epsilon), budget), budget, f"{words} {whose}".rstrip()


def _name(name: str) -> str:
    return clean(name, _NAME_WIDTH)
