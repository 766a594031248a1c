"""The actors of a simulation and the round they work on: who does what, and what if one of them dies."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ray
from ray.exceptions import OutOfMemoryError, RayError, RayTaskError

from fl_dp.errors import FederationError
from fl_dp.federation.wire.messages import one_line
from fl_dp.records import RoundPlan
from fl_dp.simulation.chunks import Chunks
from fl_dp.simulation.quarantine import TRIES, Quarantine
from fl_dp.simulation.work import ChunkDone, ClientWork, Done, Measured
from fl_dp.simulation.workers import Actor, Job, PartSum, Worker

logger = logging.getLogger("fl_dp")

START_SECONDS = 180.0  # without any actor that is there
LOOK_SECONDS = 1.0  # between two looks for actors that hang
ENDED = "its process ended while it was trained (killed, or out of memory)"


class ActorPool:
    """Does one round's tasks after the other's, on actors that may die.

    start_actor: starts one. size: how many there are to be. client_timeout: seconds that one client may take.
    at_once: most examples in memory at a time; halved for all when memory runs out. repeated: how often a
    client of this round had to be begun again.

    The clients that a lost actor had in its hands, and those whose updates were in its sum, are trained
    again elsewhere. The former are suspects: each by itself, and never on an actor whose sum it could take
    along. Trained again they give the same update as before (see `keys`), suspects but for the rounding of a
    first step that they had taken with others: nothing is paid for twice.
    """

    def __init__(
        self, start_actor: Callable[[], Actor], size: int, client_timeout: float, at_once: int
    ) -> None:
        self.at_once = at_once
        self.repeated = 0
        self._start_actor, self._size, self._client_timeout = start_actor, size, client_timeout
        self._workers: list[Worker] = []
        self._chunks = Chunks()
        self._suspects = Quarantine()
        self._round: Any = None
        self._number = 0  # of the round, counted from 1
        self._finishing = False
        self._done: dict[str, Done] = {}
        self._sums: list[PartSum] = []
        self._failed_starts = 0
        self._someone_since = time.monotonic()

    @property
    def actors(self) -> int:
        """How many are there."""
        return len(self._here())

    @property
    def done(self) -> Sequence[Done]:
        """What has become of the round's tasks so far."""
        return list(self._done.values())

    @property
    def sums(self) -> Sequence[PartSum]:
        """What was added up, in as many sums as there were actors, or more; complete when the round is."""
        return self._sums

    def take_sums(self) -> Iterator[PartSum]:
        """The sums, one after the other, each forgotten when the next is asked for: they are large."""
        while self._sums:
            yield self._sums.pop(0)

    def start(self) -> None:
        """Begin to start the actors."""
        self._start_missing()

    def resize(self, size: int) -> None:
        """Have `size` actors from now on; of those too many, the ones with nothing in their hands go."""
        self._size = size
        there_first = sorted(self._workers, key=lambda worker: worker.coming is not None)
        for worker in there_first[size:]:
            if not worker.jobs and not worker.summed:
                self._stop_actor(worker)

    def measure(self, plan: RoundPlan, part: int) -> Measured:
        """What an actor finds out about a client's step.

        Raises what it raises there; FederationError when no process lives to tell.
        """
        for _ in range(TRIES):
            worker = self._first()
            try:
                return self._get(worker.actor.measure.remote(plan, part))  # type: ignore[no-any-return]
            except RayTaskError as error:
                raise error.cause from None
            except RayError as error:
                self._lose(worker, error)
                words = _words(error)
        raise FederationError(f"Training processes end while a client's step is measured: {words}")

    def begin(self, shared_round: Any, tasks: Sequence[ClientWork]) -> None:
        """Start a round. shared_round: reference to a Round. The round before is over, or is given up."""
        self._abandon()
        self._round, self._done, self._sums, self.repeated = shared_round, {}, [], 0
        self._suspects.begin()
        self._finishing = False
        self._number += 1
        for worker in self._workers:
            worker.knows_round = False
        self._chunks.put(tasks)
        self._someone_since = time.monotonic()

    def advance(self, seconds: float) -> bool:
        """Work on the round for at most that long; True when it is done: see `done` and `sums`.

        FederationError when there are no actors, and none come.
        """
        until = time.monotonic() + seconds
        while True:
            self._start_missing()
            self._hand_out()
            if self._is_idle() and self._take_sums():
                return True
            left = until - time.monotonic()
            if left <= 0:
                return False
            self._wait(min(left, LOOK_SECONDS))
            self._let_go_of_hanging()

    def finish(self) -> None:
        """Begin nothing more: what is in the actors' hands is the last of this round."""
        self._finishing = True

    def stop(self) -> None:
        """End the round now, with what is done and can be had at once."""
        self.finish()
        for worker in [worker for worker in self._workers if worker.jobs]:
            self._forget(worker.summed)
            self._stop_actor(worker)
        self._take_sums()
        self._give_up_waiting()

    def close(self) -> None:
        """End all actors."""
        for worker in list(self._workers):
            self._stop_actor(worker)

    def _here(self) -> list[Worker]:
        return [worker for worker in self._workers if worker.coming is None]

    def _first(self) -> Worker:
        """The first actor that is there, which is waited for."""
        self._someone_since = time.monotonic()
        while not self.actors:
            self._start_missing()
            self._wait(LOOK_SECONDS)
        return self._here()[0]

    def _get(self, ref: Any) -> Any:
        return ray.get(ref, timeout=self._client_timeout)  # what does not come is lost: GetTimeoutError

    def _start_missing(self) -> None:
        while len(self._workers) < self._size:
            actor = self._start_actor()
            self._workers.append(Worker(actor, actor.ready.remote()))
        if self.actors:
            self._someone_since = time.monotonic()
        elif time.monotonic() - self._someone_since > START_SECONDS:
            raise FederationError(
                f"No training process has started within {START_SECONDS:.0f} s: the cluster has not the "
                "cores, GPUs or memory that one is to have. See clients-per-cpu and clients-per-gpu."
            )

    def _hand_out(self) -> None:
        """Quarantine first; then a chunk for whoever has none, and one to follow."""
        if self._finishing:
            self._give_up_waiting()
        self._hand_out_suspects()
        here = self._here()
        for ahead in (0, 1):
            for worker in here:
                plenty = len(self._chunks) > ahead * len(here)
                if len(worker.jobs) <= ahead and plenty and not worker.has_any(self._suspects):
                    self._give(worker, self._chunks.take(len(here)))

    def _hand_out_suspects(self) -> None:
        """Each alone, to an actor with no sum; when there is no other work, its sum is fetched before."""
        for worker in self._here():
            if self._suspects and not worker.jobs and not (worker.summed and self._chunks):
                self._take_sums([worker])
                if worker in self._workers:
                    self._give(worker, [self._suspects.take()])

    def _give(self, worker: Worker, tasks: list[ClientWork]) -> None:
        unknown = [] if worker.knows_round else [self._round]
        worker.knows_round = True
        ref = worker.actor.train.remote(self._number, tasks, self.at_once, *unknown)
        worker.jobs.append(Job(ref, tasks, self.at_once, time.monotonic()))

    def _is_idle(self) -> bool:
        return not (self._chunks or self._suspects or any(worker.jobs for worker in self._workers))

    def _wait(self, seconds: float) -> None:
        """Take in what comes first: an actor that is there now, or a chunk that is done."""
        waiting = dict(self._awaited())
        if not waiting:
            time.sleep(seconds)
            return
        ready, _ = ray.wait(list(waiting), num_returns=1, timeout=seconds)
        for ref in ready:
            self._take_in(waiting[ref], ref)

    def _awaited(self) -> Iterator[tuple[Any, Worker]]:
        for worker in self._workers:
            if worker.coming is not None:
                yield worker.coming, worker
            elif worker.jobs:
                yield worker.jobs[0].ref, worker

    def _take_in(self, worker: Worker, ref: Any) -> None:
        try:
            result = self._get(ref)
        except RayError as error:
            self._lose(worker, error)
            return
        if worker.coming is not None:
            worker.coming, self._failed_starts = None, 0
            return
        job = worker.jobs.popleft()
        if worker.jobs:
            worker.jobs[0].started = time.monotonic()
        self._settle(worker, job, result)

    def _settle(self, worker: Worker, job: Job, result: ChunkDone) -> None:
        self._chunks.learn(job.tasks, result.done)
        self._remember(result.at_once)
        for task, done in zip(job.tasks, result.done, strict=True):
            self._done[task.message] = done
            if task.weight is not None and not done.problem:
                worker.summed.append(task)

    def _take_sums(self, workers: Sequence[Worker] | None = None) -> bool:
        """Fetch what the workers, all if None, have added up; False if that made new work: one was lost."""
        holders = [worker for worker in workers or self._workers if worker.summed]
        refs = [worker.actor.take_sum.remote() for worker in holders]
        for worker, ref in zip(holders, refs, strict=True):
            try:
                arrays = self._get(ref)
            except RayError as error:
                self._lose(worker, error)
            else:
                self._sums.append(PartSum([task.message for task in worker.summed], arrays))
                worker.summed = []
        return self._is_idle()

    def _lose(self, worker: Worker, error: Exception) -> None:
        """An actor is gone: find its tasks another one."""
        self._stop_actor(worker)
        if worker.coming is not None:
            self._count_failed_start(error)
        else:
            logger.warning("a training process is gone: %s", _words(error))
        if worker.jobs:
            self._suspect_all(worker.jobs.popleft(), error)
        self._chunks.put([task for job in worker.jobs for task in job.tasks])
        self._chunks.put(worker.summed)
        self._forget(worker.summed)
        self.repeated += len(worker.summed)

    def _count_failed_start(self, error: Exception) -> None:
        self._failed_starts += 1
        if self._failed_starts > 2 * self._size:
            raise FederationError(f"Training processes do not start: {_words(error)}") from error

    def _suspect_all(self, job: Job, error: Exception) -> None:
        """Let each task be tried again by itself, or say that it has failed."""
        if isinstance(error, OutOfMemoryError):  # of Ray's memory monitor
            self._remember(max(1, job.at_once // 2))
        failed = self._suspects.put(job.tasks)
        self._done |= {task.message: Done(task.message, 0.0, ENDED) for task in failed}
        self.repeated += len(job.tasks) - len(failed)

    def _let_go_of_hanging(self) -> None:
        for worker in list(self._workers):
            if not worker.jobs:
                continue
            job = worker.jobs[0]
            allowed = self._client_timeout + 2 * self._chunks.seconds(job.tasks)
            if time.monotonic() - job.started > allowed:
                self._let_go(worker, job)

    def _let_go(self, worker: Worker, job: Job) -> None:
        """End an actor that hangs; the client is known if it had no other in its hands."""
        reason = f"took longer than client-timeout = {self._client_timeout:g} s"
        if len(job.tasks) == 1:
            message = worker.jobs.popleft().tasks[0].message
            self._done[message] = Done(message, self._client_timeout, reason)
        self._lose(worker, FederationError(f"a client {reason}"))

    def _give_up_waiting(self) -> None:
        self._chunks.clear()
        self._suspects.give_up()

    def _abandon(self) -> None:
        """Give up what is left of the round; actors that are at work on it are replaced."""
        self._give_up_waiting()
        for worker in [worker for worker in self._workers if worker.jobs or worker.summed]:
            self._stop_actor(worker)

    def _forget(self, tasks: Sequence[ClientWork]) -> None:
        for task in tasks:
            del self._done[task.message]

    def _stop_actor(self, worker: Worker) -> None:
        self._workers.remove(worker)
        ray.kill(worker.actor)

    def _remember(self, at_once: int) -> None:
        if at_once < self.at_once:
            logger.warning("memory ran out: at most %d examples at once from now on", at_once)
            self.at_once = at_once


def _words(error: Exception) -> str:
    """The cause, the last line of what Ray says; of an actor's own error its class: data may be quoted."""
    if isinstance(error, RayTaskError):
        return f"{type(error.cause).__name__} was raised in it"
    return one_line(str(error).strip().splitlines()[-1])
