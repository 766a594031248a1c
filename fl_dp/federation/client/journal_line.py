"""One line of a client's journal: its fields, and how it is read."""

import json
import typing
from dataclasses import dataclass, fields
from typing import Literal, Self

from fl_dp.config.files import DAMAGED

Event = Literal["registered", "asked", "trained", "declined", "failed"]
EVENTS: tuple[Event, ...] = typing.get_args(Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One thing that happened. event: one of `EVENTS`.

    at: UTC. client: its name; dataset: in the ledger, empty where it was not read. run, round: of a round.
    steps: asked for, or taken. before, after: epsilon of all that the data have spent, None where it is
    infinite or not known; budget: the epsilon that it is held against. total: steps of all that the data have
    spent by now, by which an older copy of the ledger is noticed; None where it is not known. seconds: since
    the message came. reason: why not; process: of the client that answered.
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
        """The line that a text says; None where it says something else, as one that was cut off does."""
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
