"""The messages between driver and actors."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from numpy import ndarray
from ray import cloudpickle

from fl_dp.config.task import TaskSettings
from fl_dp.errors import ConfigError
from fl_dp.records import RoundPlan
from fl_dp.tasks.load import GIVEN, give, task_class

Array = ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class GivenTask:
    """A task's class in the driver's process, as in a notebook, for Ray's processes.

    It is pickled by value if its module is not installed. paths: where its imports are found.
    """

    pickled: bytes
    paths: tuple[str, ...]

    def take(self) -> None:
        """Load the class in this process, under the name that it has in the driver's."""
        sys.path += [path for path in self.paths if path not in sys.path]  # at the end, as for task files
        give(cloudpickle.loads(self.pickled))


def given_task(name: str) -> GivenTask | None:
    """The class of that name, pickled; None for a name that every process can look up itself.

    ConfigError for a class that cannot be pickled.
    """
    if not name.startswith(GIVEN):
        return None
    kind = task_class(name)
    module = sys.modules.get(kind.__module__)
    by_value = module is not None and kind.__module__ != "__main__"
    try:
        if by_value:
            cloudpickle.register_pickle_by_value(module)
        return GivenTask(cloudpickle.dumps(kind), tuple(path for path in sys.path if path))
    except Exception as error:  # pickling the class's own parts may raise anything
        raise ConfigError(
            f"task = {name!r}: cannot be sent to Ray's processes ({type(error).__name__}: {error}); put it "
            "in a file of its own, and name that."
        ) from error
    finally:
        if by_value:
            cloudpickle.unregister_pickle_by_value(module)


@dataclass(frozen=True)
class Round:
    """What all clients of a round share; sent once to each machine.

    key: new for every round. weights: the complete global state.
    kernels: chosen by the engine, the same in every actor, so that no result depends on the actor.
    """

    key: str
    weights: Mapping[str, Array]
    kernels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ClientWork:
    """A work item: one client's round, once it is paid for: `steps` of `plan` on part number `part`.

    message: the id of the message that asked for it. weight: of its update in the chunk's sum; None: the
    update is wanted alone. records: expected number over all steps, by which work is distributed.
    key: secret bytes from which all its random numbers come; empty before it is paid for. state: what the
    client continues from, see `training/kept.py`; empty if it starts anew.
    """

    message: str
    client: str
    part: int
    plan: RoundPlan
    steps: int
    sample_rate: float
    weight: float | None
    key: bytes = field(default=b"", repr=False)
    state: bytes = field(default=b"", repr=False)

    def paid(self, steps: int, key: bytes, state: bytes = b"") -> Self:
        """The item with the steps that were paid for, the payment's key, and the state to start from."""
        return replace(self, steps=steps, key=key, state=state)

    @property
    def records(self) -> int:
        return self.steps * self.plan.expected_batch_size


@dataclass(frozen=True, slots=True)
class Done:
    """The result of an item.

    seconds: of training. problem: why there is no update, in words that may be told to a server; empty if
    there is one. arrays: the update, if it was wanted alone. log: for the clients' own log. state: what the
    client's next round continues from; empty for nothing.
    """

    message: str
    seconds: float
    problem: str = ""
    arrays: Mapping[str, Array] | None = None
    log: str = ""
    state: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class ChunkDone:
    """The results of a chunk. at_once: the physical batch that fits, as far as the actor knows. sum: of the
    updates with a weight, by array, in float64 (int64 for a secure sum); empty if there is none.
    """

    done: Sequence[Done]
    at_once: int
    sum: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Measured:
    """What an actor measured of one client's step.

    kernels: chosen by the engine. at_once: rows of a pass. step_bytes: a round's peak memory besides model
    and data; process_bytes: memory that the actor's process shares with no other. gpu_bytes: GPU memory that
    an actor holds, gpu_total: the GPU's; 0 without one. most: rows that fit the memory.
    """

    kernels: Mapping[str, str]
    at_once: int
    step_bytes: int
    process_bytes: int
    gpu_bytes: int = 0
    gpu_total: int = 0
    most: int = sys.maxsize


@dataclass(frozen=True, slots=True)
class ActorSettings:
    """How an actor works. physical_batch_size, memory_mib: as in a ClientConfig.

    task: what is learned, the same on every machine. given: the task's class, if only the driver's process
    has it.
    """

    task: TaskSettings
    device: str
    threads: int
    physical_batch_size: Any
    memory_mib: int
    given: GivenTask | None = None


@dataclass(frozen=True, slots=True)
class RoundWork:
    """The progress of a round, or its final state.

    clients: the number that train in it; over: of these, those done; failed: of these, those that failed;
    repeated: how often one was started again because a process was lost. records: expected number of examples
    of those done. seconds: since the round was asked for; busy_seconds: of training, summed over `actors`
    parallel actors. ended: the round is over; clients that are not done have failed. private: whether it is.
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
