"""The Ray actors of a pool: starts, replaces and stops them, and tracks the running calls of each."""

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import RayTaskError

from fl_dp.clean_text import one_line
from fl_dp.errors import FederationError

Handle = Any  # of a TrainingActor; Ray's handles have no types

START_SECONDS = 180.0  # the longest time without any actor that is ready


@dataclass
class Call:
    """A chunk that the actor was asked to train. started: the earliest time at which its first item began."""

    ref: Any
    at_once: int
    started: float


@dataclass
class PoolActor:
    """starting: a reference that resolves when the process is ready; None from then on. calls: in the order
    of the chunks. knows_round: whether it has received what all clients of the round share.
    """

    handle: Handle
    starting: Any
    calls: deque[Call] = field(default_factory=deque)
    knows_round: bool = False

    @property
    def awaited(self) -> Any:
        """The reference that resolves next; None if there is none."""
        if self.starting is not None:
            return self.starting
        return self.calls[0].ref if self.calls else None

    def call_is_over(self, now: float) -> None:
        """The first call has returned; the next one, if there is one, begins."""
        self.calls.popleft()
        if self.calls:
            self.calls[0].started = now


class PoolActors:
    """Actors by number, `size` of them once `start_missing` was called. Numbers are never reused."""

    def __init__(self, start_actor: Callable[[], Handle], size: int) -> None:
        self.size = size
        self._start_actor = start_actor
        self._numbers = itertools.count()
        self._actors: dict[int, PoolActor] = {}
        self._failed_starts = 0
        self._last_ready = time.monotonic()  # when an actor was last ready

    def __getitem__(self, number: int) -> PoolActor:
        return self._actors[number]

    def __iter__(self) -> Iterator[int]:
        return iter(list(self._actors))

    def start_missing(self) -> None:
        """Start actors until there are `size`. FederationError if none has been ready for START_SECONDS."""
        while len(self._actors) < self.size:
            handle = self._start_actor()
            self._actors[next(self._numbers)] = PoolActor(handle, starting=handle.ready.remote())
        if any(actor.starting is None for actor in self._actors.values()):
            self._last_ready = time.monotonic()
        elif time.monotonic() - self._last_ready > START_SECONDS:
            raise FederationError(
                f"No training process has started within {START_SECONDS:.0f} s: the cluster lacks the cores, "
                "GPUs or memory that one needs. See clients-per-cpu and clients-per-gpu."
            )

    def wait_anew(self) -> None:
        """Count START_SECONDS from now on, after a time without checks."""
        self._last_ready = time.monotonic()

    def is_ready(self, number: int) -> None:
        """The actor's process has started."""
        self._actors[number].starting, self._failed_starts = None, 0

    def has_not_started(self, error: Exception) -> None:
        """An actor was lost while it started. FederationError if that happens repeatedly."""
        self._failed_starts += 1
        if self._failed_starts > 2 * self.size:
            raise FederationError(f"Training processes do not start: {words_of(error)}") from error

    def stop(self, numbers: Iterable[int]) -> None:
        """End the actors' processes."""
        for number in numbers:
            ray.kill(self._actors.pop(number).handle)

    def wait(self, seconds: float) -> list[tuple[int, Any]]:
        """What resolves first within that time, with its actor: the actor is ready, or a chunk is done."""
        awaited = {one.awaited: number for number, one in self._actors.items() if one.awaited is not None}
        if not awaited:
            time.sleep(seconds)
            return []
        done, _ = ray.wait(list(awaited), num_returns=1, timeout=seconds)
        return [(awaited[ref], ref) for ref in done]


def words_of(error: Exception) -> str:
    """The cause: the last line of Ray's message; for an actor's own error its class: texts may quote data."""
    if isinstance(error, RayTaskError):
        return f"{type(error.cause).__name__} was raised in it"
    return one_line(str(error).strip().splitlines()[-1])
