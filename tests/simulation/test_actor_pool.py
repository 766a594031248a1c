"""Every process may die at any call, and every client is still counted exactly once."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from ray.exceptions import ActorDiedError, OutOfMemoryError, RayTaskError

from fl_dp.errors import ConfigError, FederationError
from fl_dp.records import RoundPlan
from fl_dp.simulation.actor_pool import TRIES, ActorPool
from fl_dp.simulation.pool_actors import START_SECONDS
from fl_dp.simulation.round_state import ENDED
from fl_dp.simulation.work import ChunkDone, ClientWork, Done

PLAN = RoundPlan("run", 1, "linear", 2, 8, 0.5, 0.0, 1.0, 1.0)
ITEMS = [ClientWork(str(k), str(k), k, PLAN, 2, 0.1, weight=1.0 + k) for k in range(24)]
TIMEOUT = 60.0


class Adder:
    """In the place of a TrainingActor: the update of client k is 2 ** k, and its sum a count of each."""

    at_once = 64

    def __init__(self) -> None:
        self.total = 0.0

    def ready(self) -> None: ...

    def measure(self, plan: RoundPlan) -> str:
        return plan.model

    def train(
        self, number: int, items: Sequence[ClientWork], at_once: int, shared_round: Any = None
    ) -> ChunkDone:
        if shared_round is not None:
            self.number = number
        assert number == self.number
        for item in items:
            self.total += (item.weight or 0.0) * 2.0**item.part
        return ChunkDone([Done(item.message, 0.01) for item in items], min(at_once, self.at_once))

    def take_sum(self) -> dict[str, Any]:
        total, self.total = self.total, 0.0
        return {"w": np.array([total])}


def pool_of(fake: Any, size: int, make: Callable[[], Any] = Adder) -> ActorPool:
    return ActorPool(lambda: fake.start_actor(make), size, TIMEOUT, at_once=64)


def run(pool: ActorPool, items: Sequence[ClientWork] = ITEMS) -> Mapping[str, str]:
    """Do a round, hold its sums against its messages, and return what went wrong, by message."""
    pool.begin("round", items)
    while not pool.advance(10.0):
        pass
    assert sorted(one.message for one in pool.done) == sorted(item.message for item in items)
    counted = [message for part in pool.sums for message in part.messages]
    assert len(counted) == len(set(counted))
    assert set(counted) == {one.message for one in pool.done if not one.problem}
    for part in pool.sums:
        members = [items[int(message)] for message in part.messages]
        assert part.arrays["w"] == sum(item.weight * 2.0**item.part for item in members if item.weight)
    return {one.message: one.problem for one in pool.done if one.problem}


@pytest.mark.parametrize("actors", [1, 2, 4])
def test_every_task_is_done_and_counted_once(fake_ray, actors):
    pool = pool_of(fake_ray, actors)
    for _ in range(3):
        assert run(pool) == {}
    assert pool.repeated == 0
    assert len(fake_ray.actors) == actors


@pytest.mark.parametrize("ended", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("actors", [1, 3])
def test_a_process_that_dies_at_any_call_costs_nobody_anything(fakes, fake_ray, actors, ended):
    """Every call of a round is a moment to die at: starting, training, or handing over the sum."""
    fake_ray.fault = count = _Counted()
    run(pool_of(fake_ray, actors))
    assert count.calls > 3 * actors
    for moment in range(count.calls):
        fake_ray.fault = _Counted(moment, ended)
        assert run(pool_of(fake_ray, actors)) == {}, f"died at call {moment}"


class _Counted:
    """A fault at one call of all; without one, a count of calls."""

    def __init__(self, moment: int = -1, ended: bool = False) -> None:
        self.calls, self._moment, self._ended = 0, moment, ended

    def __call__(self, ref: Any, ended: bool) -> Any:
        if ended != self._ended:
            return None
        self.calls += 1
        return ActorDiedError() if self.calls - 1 == self._moment else None


def test_all_processes_die_at_once(fake_ray):
    pool = pool_of(fake_ray, 4)
    run(pool)
    for moment in ("idle", "at work"):
        if moment == "at work":
            pool.begin("round", ITEMS)
            pool.advance(0.0)
        for handle in fake_ray.actors:
            handle.dead = ActorDiedError()
        assert run(pool) == {}


def test_a_client_that_always_ends_its_process_fails_alone(fake_ray):
    fake_ray.fault = kills("7")
    pool = pool_of(fake_ray, 2)
    run(pool, ITEMS[:4])  # some speed is known, so that chunks hold several clients
    assert run(pool) == {"7": ENDED}
    assert len(fake_ray.actors) == 2 + 2  # begun once among others, then alone


def kills(message: str, error: Any = None) -> Callable[[Any, bool], Any]:
    """A fault: whatever chunk holds that message ends its process, or does what `error` says."""

    def fault(ref: Any, ended: bool) -> Any:
        holds = ref.method == "train" and any(item.message == message for item in ref.args[1])
        return (error or ActorDiedError()) if holds else None

    return fault


@pytest.mark.parametrize("with_others", [False, True])
def test_a_client_that_hangs_is_stopped(fakes, fake_ray, caplog, with_others):
    pool = pool_of(fake_ray, 2)
    if with_others:
        run(pool)

    fake_ray.fault = kills("3", fakes.HANGS)
    before = fake_ray.now
    assert run(pool) == {"3": f"took longer than round-timeout = {TIMEOUT:g} s"}
    assert fake_ray.now - before < 3 * TIMEOUT
    assert f"a client took longer than round-timeout = {TIMEOUT:g} s" in caplog.text


def test_a_process_that_hangs_with_its_sum_is_stopped(fakes, fake_ray):
    hung = []

    def fault(ref: Any, ended: bool) -> Any:
        if ref.method == "take_sum" and not hung:
            hung.append(ref)
        return fakes.HANGS if ref in hung else None

    fake_ray.fault = fault
    assert run(pool_of(fake_ray, 2)) == {}
    assert fake_ray.now < 2 * TIMEOUT


def test_processes_that_do_not_start_end_the_run_in_words(fake_ray):
    def fails() -> None:
        raise ActorDiedError  # unreachable for a FakeRay: the fault strikes before

    text = "The actor died because of an error raised in its creation item\n\nNo module named 'x'"
    fake_ray.fault = lambda ref, ended: _died(text)
    with pytest.raises(FederationError, match=r"do not start: No module named 'x'$"):
        run(pool_of(fake_ray, 2, fails))
    assert len(fake_ray.actors) == 2 + 2 * 2  # the first two, and two more tries for each


def _died(text: str) -> ActorDiedError:
    error = ActorDiedError()
    error.error_msg = text
    return error


def test_processes_that_never_come_end_the_run_in_words(fakes, fake_ray):
    fake_ray.fault = lambda ref, ended: fakes.HANGS
    with pytest.raises(FederationError, match="clients-per-cpu"):
        run(pool_of(fake_ray, 2))
    assert fake_ray.now < START_SECONDS + 10


def test_memory_that_ran_out_halves_the_batch_for_good(fake_ray, caplog):
    error = OutOfMemoryError("low on memory")
    pool = pool_of(fake_ray, 2)
    run(pool)
    fake_ray.fault = lambda ref, ended: error if ref.method == "train" and ref.args[2] == 64 else None
    run(pool)
    assert pool.at_once == 32  # once, however many had 64 when they ended
    assert "at most 32 examples at once" in caplog.text
    fake_ray.fault = kills("5", OutOfMemoryError("low on memory"))
    run(pool)
    assert pool.at_once == 32 // 4  # once among others, then alone


def test_no_other_death_is_taken_for_a_want_of_memory(fake_ray):
    """Ray's words for any killed process name the kernel's memory killer as one possible cause."""
    fake_ray.fault = kills("5", _died("(1) it was killed by the OOM killer due to high memory usage"))
    pool = pool_of(fake_ray, 2)
    run(pool)
    assert pool.at_once == 64


def test_what_one_actor_finds_too_large_is_too_large_for_all(fake_ray, monkeypatch):
    pool = pool_of(fake_ray, 2)
    for found in (16, 64):
        monkeypatch.setattr(Adder, "at_once", found)
        run(pool)
        assert pool.at_once == 16


def test_measuring_outlives_a_process_or_two(fake_ray):
    fake_ray.fault = kills_first("measure", TRIES - 1)
    assert pool_of(fake_ray, 1).measure(PLAN) == "linear"
    fake_ray.fault = kills_first("measure", TRIES)
    with pytest.raises(FederationError, match="end while a client's step is measured"):
        pool_of(fake_ray, 1).measure(PLAN)


def kills_first(method: str, number: int) -> Callable[[Any, bool], Any]:
    left = itertools.repeat(ActorDiedError(), number)
    return lambda ref, ended: next(left, None) if ref.method == method else None


def test_what_measuring_raises_is_raised_as_it_was(fake_ray):
    error = RayTaskError("measure", "a remote traceback", ConfigError("Not even one example fits 5 MiB."))
    fake_ray.fault = lambda ref, ended: error if ref.method == "measure" else None
    with pytest.raises(ConfigError, match=r"^Not even one example fits 5 MiB\.$"):
        pool_of(fake_ray, 1).measure(PLAN)


def test_resize_keeps_those_that_are_there(fakes, fake_ray):
    fake_ray.fault = lambda ref, ended: fakes.HANGS if ref.handle.number == 0 else None  # does not come
    pool = pool_of(fake_ray, 3)
    run(pool)
    pool.resize(2)
    assert [handle.dead is None for handle in fake_ray.actors] == [False, True, True]
    pool.resize(4)
    assert run(pool) == {}
    assert len(fake_ray.actors) == 5


def test_actors_that_are_too_many_get_nothing_more(fake_ray):
    pool = pool_of(fake_ray, 3)
    while pool.actors < 3:
        run(pool)
    pool.resize(1)
    assert pool.actors == 1
    assert run(pool) == {}
    assert [handle.dead is None for handle in fake_ray.actors] == [True, False, False]


def test_what_all_clients_of_a_round_share_is_sent_once_to_each_actor(fake_ray):
    """Unpacking it takes time."""
    sent: list[tuple[int, int]] = []

    def note(ref: Any, ended: bool) -> None:
        if ended and ref.method == "train" and len(ref.args) == 4:
            sent.append((ref.args[0], ref.handle.number))

    fake_ray.fault = note
    pool = pool_of(fake_ray, 2)
    for _ in range(3):
        run(pool)
    assert len(sent) == len(set(sent))


def test_resize_leaves_a_round_that_is_on_its_way_alone(fake_ray):
    pool = pool_of(fake_ray, 4)
    run(pool)
    pool.begin("round", ITEMS)
    pool.advance(0.0)
    pool.resize(1)
    while not pool.advance(1.0):
        pass
    assert len(pool.done) == len(ITEMS)


def test_finish_begins_nothing_more_and_keeps_what_is_done(fake_ray):
    pool = pool_of(fake_ray, 2)
    run(pool)
    pool.begin("round", ITEMS)
    pool.advance(0.0)
    pool.finish()
    assert pool.advance(1.0)
    assert 0 < len(pool.done) < len(ITEMS)
    assert sum(len(part.messages) for part in pool.sums) == len(pool.done)


def test_stop_ends_a_round_at_once_and_counts_only_what_was_fetched(fakes, fake_ray):
    pool = pool_of(fake_ray, 3)
    while pool.actors < 3:
        run(pool)
    fake_ray.fault = lambda ref, ended: fakes.HANGS if ref.handle.number == 0 else None
    pool.begin("round", ITEMS)
    pool.advance(1.0)
    pool.stop()
    counted = {message for part in pool.sums for message in part.messages}
    assert counted == {one.message for one in pool.done}
    assert 0 < len(counted) < len(ITEMS)
    fake_ray.fault = lambda ref, ended: None
    assert run(pool) == {}


def test_close_ends_all(fake_ray):
    pool = pool_of(fake_ray, 3)
    pool.start()
    pool.close()
    assert all(handle.dead for handle in fake_ray.actors)
    assert pool.actors == 0
