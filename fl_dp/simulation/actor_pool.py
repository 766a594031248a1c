"""The pool of actors that train a round: carries out on Ray what `RoundState` decides."""

import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import OutOfMemoryError, RayError, RayTaskError

from fl_dp.clean_text import one_line
from fl_dp.errors import FederationError
from fl_dp.records import RoundPlan
from fl_dp.simulation.round_state import RoundState
from fl_dp.simulation.work import ClientWork, Measured

logger = logging.getLogger("fl_dp")

Handle = Any  # of a TrainingActor; Ray's handles have no types

TRIES = 3  # processes that may end while a client's step is measured
LOOK_SECONDS = 1.0  # between two checks for actors to start
START_SECONDS = 180.0  # the longest time without any actor that is ready


@dataclass
class _Actor:
    """starting: a reference that resolves when the process is ready; None from then on. calls: a reference
    for each call, in order, with the examples at once. round: the last one that it knows.
    """

    handle: Handle
    starting: Any
    calls: deque[tuple[Any, int]] = field(default_factory=deque)
    round: int = 0

    @property
    def awaited(self) -> Any:
        """The reference that resolves next; None if there is none."""
        if self.starting is not None:
            return self.starting
        return self.calls[0][0] if self.calls else None


class ActorPool:
    """Trains the items of one round after the other, on actors that may die.

    start_actor: starts one. size: the number of actors. timeout: seconds that Ray may take to
    answer. at_once: most examples in memory at a time; halved for all when memory runs out, and then
    `ran_short` is true. round: its results so far.

    The clients of a lost actor are trained again elsewhere and give the same update, to the bit (see
    `result_of`), so nothing is paid for twice.
    """

    def __init__(self, start_actor: Callable[[], Handle], size: int, timeout: float, at_once: int) -> None:
        self.at_once, self.ran_short = at_once, False
        self._start_actor, self._size, self._timeout = start_actor, size, timeout
        self._numbers = itertools.count()
        self._actors: dict[int, _Actor] = {}
        self._failed_starts = 0
        self._last_ready = time.monotonic()  # when an actor was last ready
        self.round = RoundState()
        self._shared_round: Any = None
        self._number = 0  # of the round, from 1

    @property
    def actors(self) -> int:
        """The number of actors that are ready."""
        return len(self.round.actors)

    def start(self) -> None:
        """Start the actors that are missing, without waiting for them.

        FederationError if none has been ready for START_SECONDS.
        """
        while len(self._actors) < self._size:
            handle = self._start_actor()
            self._actors[next(self._numbers)] = _Actor(handle, starting=handle.ready.remote())
        if self.round.actors:
            self._last_ready = time.monotonic()
        elif time.monotonic() - self._last_ready > START_SECONDS:
            raise FederationError(
                f"No training process has started within {START_SECONDS:.0f} s: the cluster lacks the cores, "
                "GPUs or memory that one needs. See clients-per-cpu and clients-per-gpu."
            )

    def resize(self, size: int) -> None:
        """Have `size` actors from now on. Surplus actors stop, unless they work on the round."""
        self._size = size
        ready = self.round.actors
        for actor in sorted(self._actors, key=lambda number: number not in ready)[size:]:
            if not ready.get(actor):
                self.round.actor_stopped(actor)
                self._stop([actor])

    def measure(self, plan: RoundPlan) -> Measured:
        """Let an actor measure a client's step.

        Raises what it raises there; FederationError if TRIES processes have died over it.
        """
        for _ in range(TRIES):
            self._last_ready = time.monotonic()
            while not self.round.actors:
                self.start()
                self._wait(LOOK_SECONDS)
            actor = next(iter(self.round.actors))
            try:
                return self._get(self._actors[actor].handle.measure.remote(plan))  # type: ignore[no-any-return]
            except RayTaskError as error:
                raise error.cause from None
            except RayError as error:
                self._lose(actor, error)
                words = _words_of(error)
        raise FederationError(f"Training processes end while a client's step is measured: {words}")

    def begin(self, shared_round: Any, items: Sequence[ClientWork]) -> None:
        """Start a round; the round before is over, or is given up. shared_round: reference to a Round."""
        self._stop(self.round.begin(items, self._size))
        self._shared_round = shared_round
        self._number += 1
        self._last_ready = time.monotonic()

    def advance(self, seconds: float) -> bool:
        """Work on the round for at most that long; True once it is done.

        FederationError if no actor can be started.
        """
        until = time.monotonic() + seconds
        while True:
            self.start()
            for actor, call in self.round.next_calls():
                self._train(self._actors[actor], call.to_send())
            if self.round.is_over:
                return True
            left = until - time.monotonic()
            if left <= 0:
                return False
            self._wait(min(left, LOOK_SECONDS))

    def finish(self) -> None:
        self.round.finish()

    def stop(self) -> None:
        """End the round now, with the results that are there."""
        self._stop(self.round.stop())

    def call_first(self, call: Callable[[Handle], Any]) -> None:
        """Have every actor do this before it trains again; one in which it fails is replaced.

        call: from an actor's handle to Ray's reference. The last round must be over.
        """
        for number, actor in self._actors.items():
            self.round.actor_stopped(number)
            actor.starting = call(actor.handle)

    def rest(self) -> None:
        """Forget the last round and keep the actors, for rounds of another run."""
        self.begin(None, [])

    def close(self) -> None:
        self._stop(list(self._actors))
        self.round = RoundState()

    def _get(self, ref: Any) -> Any:
        return ray.get(ref, timeout=self._timeout)  # GetTimeoutError, on which the actor is given up

    def _train(self, actor: _Actor, items: Sequence[ClientWork]) -> None:
        unknown = [] if actor.round == self._number else [self._shared_round]
        actor.round = self._number
        ref = actor.handle.train.remote(self._number, items, self.at_once, *unknown)
        actor.calls.append((ref, self.at_once))

    def _wait(self, seconds: float) -> None:
        """Take in what resolves first within that time: an actor is ready, or a chunk is done."""
        awaited = {one.awaited: number for number, one in self._actors.items() if one.awaited is not None}
        if not awaited:
            time.sleep(seconds)
            return
        done, _ = ray.wait(list(awaited), num_returns=1, timeout=seconds)
        for ref in done:
            number = awaited[ref]
            actor = self._actors[number]
            try:
                result = self._get(ref)
            except RayError as error:
                self._lose(number, error)
                continue
            if actor.starting is not None:
                actor.starting, self._failed_starts = None, 0
                self.round.actor_ready(number)
            else:
                actor.calls.popleft()
                self._limit(result.at_once)
                self.round.call_done(number, result)

    def _lose(self, number: int, error: Exception) -> None:
        """Give up an actor that is gone or does not answer. FederationError if none starts."""
        actor = self._actors[number]
        self._stop([number])
        if actor.starting is not None:
            self._failed_starts += 1
            if self._failed_starts > 2 * self._size:
                raise FederationError(f"Training processes do not start: {_words_of(error)}") from error
            return
        logger.warning("a training process is gone: %s", _words_of(error))
        if actor.calls and isinstance(error, OutOfMemoryError):  # of Ray's memory monitor
            self._limit(max(1, actor.calls[0][1] // 2))
        self.round.actor_lost(number)

    def _stop(self, numbers: Iterable[int]) -> None:
        """End the actors' processes."""
        for number in numbers:
            ray.kill(self._actors.pop(number).handle)

    def _limit(self, at_once: int) -> None:
        if at_once < self.at_once:
            logger.warning("memory ran out: at most %d examples at once from now on", at_once)
            self.at_once, self.ran_short = at_once, True


def _words_of(error: Exception) -> str:
    """The cause: the last line of Ray's message; for an actor's own error its class: texts may quote data."""
    if isinstance(error, RayTaskError):
        return f"{type(error.cause).__name__} was raised in it"
    return one_line(str(error).strip().splitlines()[-1])
