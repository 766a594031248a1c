"""A line of a client's journal in words, for its console, its log and `fl-dp client status`."""

from fl_dp.federation.client.journal_line import Line
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.reports import NOT_PRIVATE
from fl_dp.reporting.wording import counted


def in_words(line: Line) -> str:
    """One line for an operator; epsilons are rounded up."""
    what = f"round {line.round} of run {line.run}" if line.run else "a server asked who this client is"
    match line.event:
        case "asked":
            return f"{what}: asked for {counted(line.steps, 'step')}"
        case "registered":
            return f"{what}; {_spent(line)} is spent"
        case "trained":
            return f"{what}: {counted(line.steps, 'step')}, {_course(line)}, {line.seconds:.1f} s"
    paid = f", {_course(line)}" if line.after not in (None, line.before) else ""
    return f"{what}: {line.event}{paid}: {line.reason}"


def spent_in_words(line: Line) -> str:
    """How much of the budget was spent by then; empty if the line does not say, or no epsilon holds."""
    return "" if line.after is None or line.budget is None else f"{_spent(line)} is spent"


def _course(line: Line) -> str:
    if line.after is None:
        return f"{NOT_PRIVATE} (no epsilon holds)"
    return f"epsilon {rounded_up(line.before)} -> {rounded_up(line.after)} of {rounded_up(line.budget)}"


def _spent(line: Line) -> str:
    return f"epsilon {rounded_up(line.after)} of {rounded_up(line.budget)}"
