"""Chunks: everything once, longest first, small at the end."""

import random

from fl_dp.records import RoundPlan
from fl_dp.simulation.round_state import LONGEST_SECONDS, Chunks
from fl_dp.simulation.work import ClientWork, Done


def item(number: int, steps: int) -> ClientWork:
    plan = RoundPlan("run", 1, "linear", steps, 10, 0.5, 0.0, 1.0, 1.0)
    return ClientWork(str(number), str(number), number, plan, steps, 0.1, 1.0)


def with_speed(seconds_per_record: float) -> Chunks:
    chunks = Chunks()
    chunks.learn([item(0, 1)], [Done("0", 10 * seconds_per_record)])
    return chunks


def all_of(chunks: Chunks, actors: int) -> list[list[ClientWork]]:
    taken = []
    while chunks:
        taken.append(chunks.take(actors))
    return taken


def test_one_at_a_time_until_the_speed_is_known():
    chunks = Chunks()
    chunks.put(item(k, 1) for k in range(100))
    assert [len(chunks.take(2)) for _ in range(3)] == [1, 1, 1]


def test_every_task_is_handed_out_once_longest_first():
    luck = random.Random(0)
    items = [item(k, luck.randint(1, 50)) for k in range(200)]
    chunks = with_speed(1e-4)
    chunks.put(items)
    taken = [one for chunk in all_of(chunks, 4) for one in chunk]
    assert sorted(one.message for one in taken) == sorted(one.message for one in items)
    assert [one.records for one in taken] == sorted((one.records for one in items), reverse=True)


def test_what_comes_later_is_sorted_in():
    chunks = Chunks()
    chunks.put([item(1, 5)])
    chunks.put([item(2, 9)])
    assert chunks.take(1)[0].message == "2"


def test_no_chunk_is_long_and_the_last_are_the_smallest():
    chunks = with_speed(1e-3)
    chunks.put(item(k, 1) for k in range(1000))  # 10 ms each
    sizes = [len(one) for one in all_of(chunks, 2)]
    assert max(sizes) * 0.01 <= LONGEST_SECONDS
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 1


def test_a_task_longer_than_a_chunk_is_one_by_itself():
    chunks = with_speed(1.0)
    chunks.put([item(1, 100), item(2, 100)])
    assert len(chunks.take(1)) == 1


def test_speed_follows_what_is_measured_slowly():
    chunks = with_speed(1.0)
    chunks.learn([item(0, 0)], [Done("0", 1.0)])  # without records: it tells nothing
    assert chunks.seconds_per_record == 1.0
    chunks.learn([item(0, 1)], [Done("0", 20.0)])
    assert 1.0 < chunks.seconds_per_record < 1.2
    assert chunks.seconds([item(1, 2)]) == 20 * chunks.seconds_per_record
