"""One line of a client's journal: its fields, its parser, and its words for an operator."""

import json
import typing
from dataclasses import dataclass, fields
from typing import Literal, Self

from fl_dp.config.files import DAMAGED
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.reports import NOT_PRIVATE
from fl_dp.reporting.wording import counted

Event = Literal["registered", "asked", "trained", "evaluated", "declined", "failed"]
EVENTS: tuple[Event, ...] = typing.get_args(Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One event. event: one of `EVENTS`.

    at: UTC. client: its name; dataset: its name in the ledger, empty if the data were not read. run, round:
    of a round. steps: asked for, or taken. before, after: epsilon of all that the data have spent, None if
    infinite or unknown; budget: the epsilon that limits it. total: number of steps that the data have spent
    so far, by which an older copy of the ledger is noticed; None if unknown. seconds: since the message came.
    reason: why not; process: id of the process that answered.
    """

    event: Event
    at: str
    client: str
    dataset: str = ""
    run: str = ""
    round: int = 0
    steps: int = 0
    before: float | None = None
    after: float | None = None
    budget: float | None = None
    total: int | None = None
    seconds: float = 0.0
    reason: str = ""
    process: int = 0

    @classmethod
    def of_json(cls, text: str) -> Self | None:
        """The line in a text; None if it is no line, or one that was cut off."""
        try:
            found = json.loads(text)
            line = cls(**{field.name: found[field.name] for field in fields(cls) if field.name in found})
        except (*DAMAGED, TypeError):
            return None
        return line if line._sound() else None

    def _sound(self) -> bool:
        texts = (self.at, self.client, self.dataset, self.run, self.reason)
        numbers = (self.before, self.after, self.budget)
        return (
            self.event in EVENTS
            and all(isinstance(one, str) for one in texts)
            and all(type(one) is int for one in (self.round, self.steps, self.process))
            and all(one is None or type(one) in (int, float) for one in numbers)
            and (self.total is None or type(self.total) is int)
            and type(self.seconds) in (int, float)
        )


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
        case "evaluated":
            return f"{what}: evaluated on its own test records, of which {_spent(line)} is spent"
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
