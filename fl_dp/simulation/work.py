"""What driver and actors say to each other."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from numpy import ndarray

from fl_dp.config.task import TaskSettings
from fl_dp.records import RoundPlan
from fl_dp.simulation.given_task import GivenTask

Array = ndarray[Any, Any]


@dataclass(frozen=True)
class Round:
    """What all clients of a round share; it travels once to each machine.

    key: new for every round. weights: the global state, complete.
    kernels: chosen by the engine, the same in every actor, so that no result depends on which one it was.
    groups: of items that take their first step together. together: rows of the passes of such a step.
    """

    key: str
    weights: Mapping[str, Array]
    kernels: Mapping[str, str]
    groups: Sequence[Sequence["ClientWork"]] = ()
    together: int = 0


@dataclass(frozen=True, slots=True)
class ClientWork:
    """A work item: one client's round, paid for: `steps` of `plan` on part number `part`.

    message: the id of the message that asked for it. weight: of its update in the actor's sum; None: the
    update is wanted alone. records: expected number over all steps, by which work is shared out.
    group: number of the item's group in its Round; None if it begins alone. key: secret bytes that all its
    random numbers come from; empty before it is paid for. state: what the client goes on from, see
    `training/kept.py`; empty where it starts anew.
    """

    message: str
    client: str
    part: int
    plan: RoundPlan
    steps: int
    sample_rate: float
    weight: float | None
    group: int | None = None
    key: bytes = field(default=b"", repr=False)
    state: bytes = field(default=b"", repr=False)

    def paid(self, steps: int, key: bytes, state: bytes = b"") -> Self:
        """The work with the steps that were paid for, the payment's key, and what it starts from."""
        return replace(self, steps=steps, key=key, state=state)

    @property
    def records(self) -> int:
        return self.steps * self.plan.expected_batch_size


@dataclass(frozen=True, slots=True)
class Done:
    """What became of an item.

    seconds: in which it was trained. problem: why there is no update, in words that may be told to a
    server; empty if there is one. arrays: the update, if it was wanted alone. log: for the clients' own log.
    state: what the client's next round goes on from; empty for nothing.
    """

    message: str
    seconds: float
    problem: str = ""
    arrays: Mapping[str, Array] | None = None
    log: str = ""
    state: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class ChunkDone:
    """What became of some items; at_once: the physical batch that fits, as the actor knows by now."""

    done: Sequence[Done]
    at_once: int


@dataclass(frozen=True, slots=True)
class Measured:
    """What an actor found out about one client's step.

    kernels: chosen by the engine. at_once: rows of a pass. together: rows of the passes in which several
    clients take their first step, 0 if they should not. step_bytes: what a round takes at its peak,
    beside model and data; process_bytes: what the actor's process has for itself alone. gpu_bytes: what an
    actor holds of its GPU, gpu_total: what that has; 0 without one. most: rows that fit the memory.
    """

    kernels: Mapping[str, str]
    at_once: int
    together: int
    step_bytes: int
    process_bytes: int
    gpu_bytes: int = 0
    gpu_total: int = 0
    most: int = sys.maxsize


@dataclass(frozen=True, slots=True)
class ActorSettings:
    """How an actor works. physical_batch_size, memory_mib: as of a ClientConfig.

    task: what is learned, as on every machine of the simulation. given: its class, where only the driver's
    process has it.
    """

    task: TaskSettings
    device: str
    threads: int
    physical_batch_size: Any
    memory_mib: int
    given: GivenTask | None = None


@dataclass(frozen=True, slots=True)
class RoundWork:
    """How a round stands, or stood when it was over.

    clients: that train in it; over: that are done; failed: of these; repeated: begun once more because a
    process was lost. records: expected number of examples that the done ones took. seconds: since the
    round was asked for; busy_seconds: in which clients were trained, on `actors` actors side by side.
    ended: the round is over; clients that are not over have failed. private: whether it is. masks: whether
    the masks of its secure sum are played, whose opened sum is held against the plain one.
    """

    server_round: int
    clients: int
    over: int
    failed: int
    repeated: int
    records: int
    seconds: float
    busy_seconds: float
    actors: int
    ended: bool
    private: bool
    masks: bool = False
