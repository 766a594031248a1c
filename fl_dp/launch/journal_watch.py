"""A client's rounds on its own console, as its journal tells of them."""

from collections.abc import Callable, Sequence

from fl_dp.config.client import ClientConfig
from fl_dp.federation.client.journal import Line, NewLines, journal_folder
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.reports import NOT_PRIVATE

Say = Callable[[str], None]


class JournalWatch:
    """Says each line that is written from now on, of this client alone."""

    def __init__(self, settings: ClientConfig, say: Say) -> None:
        self._client, self._say = settings.client, say
        self._journal = NewLines(journal_folder(settings.ledger))

    def look(self) -> None:
        """Say what has come since the last look."""
        for line in _worth_saying([one for one in self._journal.new() if one.client == self._client]):
            self._say(in_words(line))


def _worth_saying(lines: Sequence[Line]) -> list[Line]:
    """Without the questions that are answered by now."""
    answered = {line.process for line in lines if line.event != "asked"}
    return [line for line in lines if line.event != "asked" or line.process not in answered]


def in_words(line: Line) -> str:
    """One line for an operator; epsilons are rounded up."""
    what = f"round {line.round} of run {line.run}" if line.run else "a server asked who this client is"
    match line.event:
        case "asked":
            return f"{what}: asked for {line.steps} steps"
        case "registered":
            return f"{what}; {_spent(line)} is spent"
        case "trained":
            return f"{what}: {line.steps} steps, {_course(line)}, {line.seconds:.1f} s"
    paid = f", {_course(line)}" if line.after not in (None, line.before) else ""
    return f"{what}: {line.event}{paid}: {line.reason}"


def _course(line: Line) -> str:
    if line.after is None:
        return f"{NOT_PRIVATE} (no epsilon holds)"
    return f"epsilon {rounded_up(line.before)} -> {rounded_up(line.after)} of {rounded_up(line.budget)}"


def _spent(line: Line) -> str:
    return f"epsilon {rounded_up(line.after)} of {rounded_up(line.budget)}"
