"""Every process may die at any call, and every client is still counted exactly once."""

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from ray.exceptions import ActorDiedError, OutOfMemoryError, RayTaskError

from fl_dp.errors import ConfigError, FederationError
from fl_dp.records import RoundPlan
from fl_dp.simulation.actor_pool import START_SECONDS, TRIES, ActorPool, _words_of
from fl_dp.simulation.round_state import ENDED, chunks_of
from fl_dp.simulation.update_sum import add
from fl_dp.simulation.work import ChunkDone, ClientWork, Done

PLAN = RoundPlan("run", 1, "linear", 2, 8, 0.5, 0.0, 1.0, 1.0)
ITEMS = [ClientWork(str(k), str(k), k, PLAN, 2, 0.1, weight=1.0 + k) for k in range(24)]
TIMEOUT = 60.0


class Adder:
    """In the place of a TrainingActor: the update of client k is 2 ** k, and its sum a count of each."""

    at_once = 64

    def ready(self) -> None: ...

    def measure(self, plan: RoundPlan) -> str:
        return plan.model

    def train(
        self, number: int, items: Sequence[ClientWork], at_once: int, shared_round: Any = None
    ) -> ChunkDone:
        if shared_round is not None:
            self.number = number
        assert number == self.number
        total = sum(item.weight * 2.0**item.part for item in items if item.weight)
        done = [Done(i.message, 0.01, arrays=None if i.weight else {"w": array(2.0**i.part)}) for i in items]
        return ChunkDone(done, min(at_once, self.at_once), {"w": array(total)} if total else {})


def array(number: float) -> Any:
    return np.array([number], dtype=np.float32 if number.is_integer() and number < 2**24 else np.float64)


def pool_of(fake: Any, size: int, make: Callable[[], Any] = Adder) -> ActorPool:
    return ActorPool(lambda: fake.start_actor(make), size, TIMEOUT, at_once=64)


def run(pool: ActorPool, items: Sequence[ClientWork] = ITEMS) -> Mapping[str, str]:
    """Do a round, hold its sums against its messages, and return what went wrong, by message."""
    pool.begin("round", items)
    while not pool.advance(10.0):
        pass
    assert pool.round.done.keys() == {item.message for item in items}
    counted(pool, items)
    return {one.message: one.problem for one in pool.round.done.values() if one.problem}


def counted(pool: ActorPool, items: Sequence[ClientWork] = ITEMS) -> set[str]:
    """The messages in the round's sum, which holds each update once, and just those that are done."""
    messages, arrays = pool.round.sum()
    assert len(messages) == len(set(messages))
    assert set(messages) == {one.message for one in pool.round.done.values() if not one.problem}
    if messages:
        members = [item for item in items if item.message in messages]
        expected = sum(item.weight * 2.0**item.part for item in members if item.weight)
        assert arrays["w"] == pytest.approx(expected, rel=1e-12)
    return set(messages)


@pytest.mark.parametrize("actors", [1, 2, 4])
def test_every_task_is_done_and_counted_once(fake_ray, actors):
    pool = pool_of(fake_ray, actors)
    for _ in range(3):
        assert run(pool) == {}
    assert pool.round.repeated == 0
    assert len(fake_ray.actors) == actors


@pytest.mark.parametrize("ended", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("actors", [1, 3])
def test_a_process_that_dies_at_any_call_costs_nobody_anything(fakes, fake_ray, actors, ended):
    """Every call of a round is a moment to die at: starting or training."""
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
    assert run(pool) == {"7": ENDED}
    assert len(fake_ray.actors) == 2 + 2  # begun once among others, then alone


def test_it_also_fails_alone_where_the_answers_before_its_own_are_lost(fake_ray):
    """A process that ends takes along what it has answered a moment before, to the call in front."""
    fault = kills("7")

    def before(ref: Any, ended: bool) -> Any:
        left = [one for one in ref.handle.queue if one is ref or one.state == "waits"]
        return next(filter(None, (fault(one, ended) for one in left)), None)

    fake_ray.fault = before
    assert run(pool_of(fake_ray, 2)) == {"7": ENDED}


def kills(message: str, error: Any = None) -> Callable[[Any, bool], Any]:
    """A fault: whatever chunk holds that message ends its process, or does what `error` says."""

    def fault(ref: Any, ended: bool) -> Any:
        holds = ref.method == "train" and any(item.message == message for item in ref.args[1])
        return (error or ActorDiedError()) if holds else None

    return fault


@pytest.mark.parametrize("seed", range(40))
def test_whatever_dies_every_update_counts_once_and_the_sum_is_the_same_to_the_bit(fakes, seed):
    """At any call, before or after it; the sum is that of a round in which nothing died."""
    luck, weight = random.Random(seed), random.Random(0)
    items = [replace(item, weight=weight.random()) for item in ITEMS]
    sums = []
    for dies in (0.0, 0.15):
        fake = fakes.patched(fakes.FakeRay(seed))
        fake.fault = lambda ref, ended, dies=dies: (
            ActorDiedError() if ref.method != "ready" and luck.random() < dies else None
        )
        pool = ActorPool(lambda fake=fake: fake.start_actor(Thirds), 3, TIMEOUT, at_once=64)
        pool.begin("round", items)
        while not pool.advance(10.0):
            pass
        messages, arrays = pool.round.sum()
        failed = {one.message for one in pool.round.done.values() if one.problem}
        assert len(messages) == len(set(messages)) == len(items) - len(failed)
        sums.append(arrays["w"])
    if not failed:
        assert sums[0].tobytes() == sums[1].tobytes()


class Thirds(Adder):
    """Whose updates round when they are added."""

    def train(self, number: int, items: Sequence[ClientWork], *rest: Any) -> ChunkDone:
        total: dict[str, torch.Tensor] = {}
        updates = {item.message: {"w": torch.tensor([1 / (3.0 + item.part)])} for item in items}
        for item in items:
            if item.weight is not None:
                add(total, updates[item.message], item.weight)
        alone = {i.message: {"w": updates[i.message]["w"].numpy()} for i in items if i.weight is None}
        done = [Done(item.message, 0.01, arrays=alone.get(item.message)) for item in items]
        return ChunkDone(done, 64, {name: one.numpy() for name, one in total.items()})


def test_chunks_hold_every_item_once_longest_first_and_small_at_the_end():
    luck = random.Random(0)
    items = [replace(ITEMS[0], message=str(k), steps=luck.randint(1, 50)) for k in range(200)]
    chunks = chunks_of(items, 4)
    records = [item.records for chunk in chunks for item in chunk]
    assert sorted(item.message for chunk in chunks for item in chunk) == sorted(
        item.message for item in items
    )
    assert records == sorted(records, reverse=True)
    assert len(chunks) < 150
    assert sum(item.records for item in chunks[0]) <= sum(records) / 16
    assert len(chunks[-1]) == 1
    assert [len(chunk) for chunk in chunks_of(items[:8], 4)] == [1] * 8


def test_an_actor_answers_for_each_item_of_its_chunk(fake_ray, monkeypatch):
    monkeypatch.setattr(Adder, "train", lambda *args: ChunkDone([], 64, {}))
    with pytest.raises(ValueError, match="zip"):
        run(pool_of(fake_ray, 2))


def test_of_an_actors_own_error_only_the_class_is_told():
    """Its text may quote data."""
    error = RayTaskError("train", "a remote traceback with patient 17", ValueError("patient 17"))
    assert _words_of(error) == "ValueError was raised in it"
    assert _words_of(RuntimeError("first\n  last\tline \n")) == "last line"


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
    error = RayTaskError("measure", "a remote traceback", ConfigError("Not even one example fits in 5 MiB."))
    fake_ray.fault = lambda ref, ended: error if ref.method == "measure" else None
    with pytest.raises(ConfigError, match=r"^Not even one example fits in 5 MiB\.$"):
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
    assert len(pool.round.done) == len(ITEMS)


def test_finish_begins_nothing_more_and_keeps_what_is_done(fake_ray):
    pool = pool_of(fake_ray, 2)
    run(pool)
    pool.begin("round", ITEMS)
    pool.advance(0.0)
    pool.finish()
    assert pool.advance(1.0)
    assert 0 < len(counted(pool)) < len(ITEMS)


def test_stop_ends_a_round_at_once_and_counts_only_what_is_done(fakes, fake_ray):
    pool = pool_of(fake_ray, 3)
    while pool.actors < 3:
        run(pool)
    fake_ray.fault = lambda ref, ended: fakes.HANGS if ref.handle.number == 0 else None
    pool.begin("round", ITEMS)
    pool.advance(1.0)
    pool.stop()
    assert 0 < len(counted(pool)) < len(ITEMS)
    fake_ray.fault = lambda ref, ended: None
    assert run(pool) == {}


def test_close_ends_all(fake_ray):
    pool = pool_of(fake_ray, 3)
    pool.start()
    pool.close()
    assert all(handle.dead for handle in fake_ray.actors)
    assert pool.actors == 0


def test_a_pool_at_rest_keeps_its_actors_and_nothing_of_the_last_round(fake_ray):
    pool = pool_of(fake_ray, 2)
    while pool.actors < 2:
        run(pool)
    pool.rest()
    assert (pool.round.done, pool.round.sum()) == ({}, ([], {}))
    assert run(pool) == {}
    assert len(fake_ray.actors) == 2


class Told(Adder):
    """Trains only after it was told to."""

    told = 0

    def use(self, number: int) -> None:
        self.told = number

    def train(self, *args: Any) -> ChunkDone:
        assert self.told == 1
        return super().train(*args)


def test_every_actor_is_called_before_it_trains_again_and_one_that_fails_is_replaced(fake_ray):
    def started() -> Told:
        made = Told()
        made.told = 1
        return made

    pool = pool_of(fake_ray, 2, started)
    while pool.actors < 2:
        run(pool)
    for handle in fake_ray.actors:
        handle.instance.told = 0
    error = RayTaskError("use", "a remote traceback", ValueError("patient 17"))
    fake_ray.fault = lambda ref, ended: error if (ref.method, ref.handle.number) == ("use", 0) else None
    pool.call_first(lambda handle: handle.use.remote(1))
    assert pool.actors == 0
    assert run(pool) == {}
    assert fake_ray.actors[0].dead is error
    assert all(handle.dead is None for handle in fake_ray.actors[1:])
