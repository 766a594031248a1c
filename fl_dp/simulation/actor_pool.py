"""The pool of actors that train a round: carries out on Ray what `RoundState` decides."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import OutOfMemoryError, RayError, RayTaskError

from fl_dp.errors import FederationError
from fl_dp.records import RoundPlan
from fl_dp.simulation.pool_actors import Call, Handle, PoolActors, words_of
from fl_dp.simulation.round_state import Assign, FetchSum, RoundState
from fl_dp.simulation.work import Array, ChunkDone, ClientWork, Done, Measured

logger = logging.getLogger("fl_dp")

TRIES = 3  # processes that may end while a client's step is measured
LOOK_SECONDS = 1.0  # between two checks for actors that hang


@dataclass(frozen=True)
class PartSum:
    """One actor's sum over the items with these messages: float64 arrays by name."""

    messages: Sequence[str]
    arrays: Mapping[str, Array]


class ActorPool:
    """Trains the items of one round after the other, on actors that may die.

    start_actor: starts one. size: the number of actors. timeout: seconds that one client may take.
    at_once: most examples in memory at a time; halved for all when memory runs out.

    The clients of a lost actor are trained again elsewhere and give the same update, to the bit (see
    `keys`), so nothing is paid for twice.
    """

    def __init__(self, start_actor: Callable[[], Handle], size: int, timeout: float, at_once: int) -> None:
        self.at_once = at_once
        self._timeout = timeout
        self._actors = PoolActors(start_actor, size)
        self._round = RoundState()
        self._shared_round: Any = None
        self._number = 0  # of the round, from 1
        self._sums: list[PartSum] = []

    @property
    def actors(self) -> int:
        """The number of actors that are ready."""
        return len(self._round.actors)

    @property
    def done(self) -> Sequence[Done]:
        """The results of the round's items so far."""
        return list(self._round.done.values())

    @property
    def repeated(self) -> int:
        """How often a client of this round had to be started again."""
        return self._round.repeated

    @property
    def sums(self) -> Sequence[PartSum]:
        """The sums, one or more from each actor; complete when the round is."""
        return self._sums

    def take_sums(self) -> Iterator[PartSum]:
        """Yield and remove the sums one by one, because they are large."""
        while self._sums:
            yield self._sums.pop(0)

    def start(self) -> None:
        """Start the actors, without waiting for them."""
        self._actors.start_missing()

    def resize(self, size: int) -> None:
        """Have `size` actors from now on. Surplus actors stop, unless they hold something of the round."""
        self._actors.size = size
        ready = self._round.actors
        for actor in sorted(self._actors, key=lambda number: number not in ready)[size:]:
            if actor not in ready or ready[actor].is_free:
                self._round.actor_stopped(actor)
                self._actors.stop([actor])

    def measure(self, plan: RoundPlan) -> Measured:
        """Let an actor measure a client's step.

        Raises what it raises there; FederationError if TRIES processes have died over it.
        """
        for _ in range(TRIES):
            actor = self._first_ready()
            try:
                return self._get(self._actors[actor].handle.measure.remote(plan))  # type: ignore[no-any-return]
            except RayTaskError as error:
                raise error.cause from None
            except RayError as error:
                self._lose(actor, error)
                words = words_of(error)
        raise FederationError(f"Training processes end while a client's step is measured: {words}")

    def begin(self, shared_round: Any, items: Sequence[ClientWork]) -> None:
        """Start a round; the round before is over, or is given up. shared_round: reference to a Round."""
        self._actors.stop(self._round.begin(items))
        self._shared_round, self._sums = shared_round, []
        self._number += 1
        for actor in self._actors:
            self._actors[actor].knows_round = False
        self._actors.wait_anew()

    def advance(self, seconds: float) -> bool:
        """Work on the round for at most that long; True once it is done, see `done` and `sums`.

        FederationError if no actor can be started.
        """
        until = time.monotonic() + seconds
        while True:
            self._actors.start_missing()
            self._carry_out_steps()
            if self._round.is_over:
                return True
            left = until - time.monotonic()
            if left <= 0:
                return False
            self._wait(min(left, LOOK_SECONDS))
            self._stop_hanging()

    def finish(self) -> None:
        """Assign nothing more in this round."""
        self._round.finish()

    def stop(self) -> None:
        """End the round now, with the results that can be fetched at once."""
        self._actors.stop(self._round.stop())
        self._carry_out_steps()

    def close(self) -> None:
        """Stop all actors."""
        self._actors.stop(self._actors)
        self._round = RoundState()

    def _first_ready(self) -> int:
        """An actor that is ready; waits for one."""
        self._actors.wait_anew()
        while not self._round.actors:
            self._actors.start_missing()
            self._wait(LOOK_SECONDS)
        return next(iter(self._round.actors))

    def _get(self, ref: Any) -> Any:
        return ray.get(ref, timeout=self._timeout)  # GetTimeoutError, on which the actor is given up

    def _carry_out_steps(self) -> None:
        while steps := self._round.next_steps():
            for step in steps:
                if isinstance(step, Assign):
                    self._train(step.actor, step.items)
            self._fetch_sums([step.actor for step in steps if isinstance(step, FetchSum)])

    def _train(self, actor: int, items: Sequence[ClientWork]) -> None:
        one = self._actors[actor]
        unknown = [] if one.knows_round else [self._shared_round]
        one.knows_round = True
        ref = one.handle.train.remote(self._number, items, self.at_once, *unknown)
        one.calls.append(Call(ref, self.at_once, time.monotonic()))

    def _fetch_sums(self, actors: Iterable[int]) -> None:
        refs = {actor: self._actors[actor].handle.take_sum.remote() for actor in actors}
        for actor, ref in refs.items():
            try:
                arrays = self._get(ref)
            except RayError as error:
                self._lose(actor, error)
            else:
                self._sums.append(PartSum(self._round.sum_fetched(actor), arrays))

    def _wait(self, seconds: float) -> None:
        for actor, ref in self._actors.wait(seconds):
            try:
                result = self._get(ref)
            except RayError as error:
                self._lose(actor, error)
            else:
                self._take_in(actor, result)

    def _take_in(self, actor: int, result: ChunkDone | None) -> None:
        """Take in the result of the actor's first chunk; None: the actor has become ready."""
        if result is None:
            self._actors.is_ready(actor)
            self._round.actor_ready(actor)
        else:
            self._actors[actor].call_is_over(time.monotonic())
            self._limit(result.at_once)
            self._round.chunk_done(actor, result.done)

    def _lose(self, actor: int, error: Exception) -> None:
        """Give up an actor that is gone or does not answer."""
        one = self._actors[actor]
        self._actors.stop([actor])
        if one.starting is not None:
            self._actors.has_not_started(error)
            return
        logger.warning("a training process is gone: %s", words_of(error))
        if one.calls and isinstance(error, OutOfMemoryError):  # of Ray's memory monitor
            self._limit(max(1, one.calls[0].at_once // 2))
        self._round.actor_lost(actor)

    def _stop_hanging(self) -> None:
        now, reason = time.monotonic(), f"took longer than round-timeout = {self._timeout:g} s"
        for actor, has in list(self._round.actors.items()):
            if has.chunks and now - self._actors[actor].calls[0].started > self._allowed(has.chunks[0]):
                logger.warning("a training process is gone: a client %s", reason)
                self._actors.stop([actor])
                self._round.actor_hangs(actor, reason, self._timeout)

    def _allowed(self, items: Sequence[ClientWork]) -> float:
        """The seconds that an actor may take for a chunk."""
        return self._timeout + 2 * self._round.waiting.seconds(items)

    def _limit(self, at_once: int) -> None:
        if at_once < self.at_once:
            logger.warning("memory ran out: at most %d examples at once from now on", at_once)
            self.at_once = at_once
