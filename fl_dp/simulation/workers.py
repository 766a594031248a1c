"""An actor as the driver sees it."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fl_dp.simulation.quarantine import Quarantine
from fl_dp.simulation.work import Array, ClientWork

Actor = Any  # a handle of TrainingActor; Ray's handles have no types


@dataclass(frozen=True)
class PartSum:
    """What one actor has added up: of the tasks with these messages, float64 arrays by name."""

    messages: Sequence[str]
    arrays: Mapping[str, Array]


@dataclass
class Job:
    """A chunk in an actor's hands. started: when its first task can have begun."""

    ref: Any
    tasks: list[ClientWork]
    at_once: int
    started: float


@dataclass
class Worker:
    """An actor, what it has in its hands, in order, and what its sum holds."""

    actor: Actor
    coming: Any  # resolves when the process is there; None from then on
    jobs: deque[Job] = field(default_factory=deque)
    summed: list[ClientWork] = field(default_factory=list)
    knows_round: bool = False

    def has_any(self, suspects: Quarantine) -> bool:
        """Whether any task in its hands is one of them."""
        return any(task in suspects for job in self.jobs for task in job.tasks)
