"""All that can happen to a small round, in every order: every update counts once, and every round ends.

A walk goes from the start over every event that is possible next, and remembers the situations that it has
seen. In each of them, `check` holds what the state machine believes against what the actors really have.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any

import pytest
from small_round import FixedChunks, Setup, Situation, messages, tasks_of, thawed

from fl_dp.simulation.round_state import Assign, RoundState
from fl_dp.simulation.work import Done

PROGRESS = ("ready", "done", "done, one failed", "fetched")  # events that are no faults


def check(now: Situation) -> None:
    """What is true in every situation."""
    assert now.state.finishing == now.finishing
    assert list(now.state.actors) == list(now.real)
    for actor, one in now.real.items():
        has = now.state.actors[actor]
        assert [tuple(chunk) for chunk in has.chunks] == one.queue
        assert [item.message for item in has.summed] == one.total
        suspected = [item for chunk in one.queue for item in chunk if item.message in now.accused]
        if suspected:
            assert one.queue == [tuple(suspected[:1])], "in quarantine, and not alone"
            assert not one.total, "a sum could be lost with an item in quarantine"
        assert len(one.queue) <= 2
    held = any(one.total for one in now.real.values())
    assert now.state.is_over == (not held and not list(now.undone()))
    check_places(now)
    if not now.fetching:
        check_rest(now)


def check_places(now: Situation) -> None:
    """Every item is in exactly one place, or left out; what was fetched stays so."""
    done = now.state.done
    sums = now.fetched + [message for one in now.real.values() for message in one.total]
    added = [t.message for t in now.items if t.weight and t.message in done and not done[t.message].problem]
    assert sorted(sums) == added, "an update counts twice, or is lost"
    places = sorted([*messages(now.undone()), *done])
    if now.finishing:
        assert len(places) == len(set(places)), "in two places"
    else:
        assert places == [item.message for item in now.items], "not in one place"


def check_rest(now: Situation) -> None:
    """When nothing is to be done but to wait: something is on its way, or the round is over."""
    on_its_way = any(one.queue for one in now.real.values())
    if now.state.is_over and not now.finishing:
        assert set(now.state.done) == {item.message for item in now.items}
    assert now.state.is_over or on_its_way or len(now.real) < now.setup.actors, "waits for nothing"
    assert not (now.finishing and (now.state.waiting or now.state.quarantine))
    for one in now.real.values():
        trying = any(item.message in now.suspected for chunk in one.queue for item in chunk)
        if not one.queue:
            assert not now.state.waiting, "has nothing to do while items wait"
            assert not now.state.quarantine
        elif len(one.queue) == 1 and not trying:
            assert len(now.state.waiting) <= len(now.real), "has nothing to follow"


def effort(now: Situation) -> int:
    """Falls with every event that is no fault: so every path without more faults ends."""
    assigned = sum(len(chunk) for one in now.real.values() for chunk in one.queue)
    waiting = len(now.state.waiting) + len(now.state.quarantine)
    summed = sum(len(one.total) for one in now.real.values())
    return 3 * waiting + 2 * assigned + summed + now.setup.actors - len(now.real)


def walk(setup: Setup) -> int:
    """Every event in every situation that can be reached; the number of situations."""
    start = Situation(setup, RoundState(waiting=FixedChunks(setup.chunk)), tasks_of(setup, 1), setup.faults)
    assert start.state.begin(start.items) == []
    came_from: dict[Any, Any] = {start.frozen(): None}
    to_visit = deque(came_from)
    while to_visit:
        here = to_visit.popleft()
        for event in list(thawed(setup, here).events()):
            situation = thawed(setup, here)
            before = effort(situation)
            try:
                situation.happen(*event)
                check(situation)
                assert event[0] not in PROGRESS or effort(situation) < before, "nothing was won"
            except Exception as error:
                raise AssertionError(f"{path_to(came_from, here)}, {event}: {error!r}") from error
            there = situation.frozen()
            if there not in came_from:
                came_from[there] = here, event
                to_visit.append(there)
    return len(came_from)


def path_to(came_from: Mapping[Any, Any], frozen: Any) -> str:
    events: list[Any] = []
    while came_from[frozen]:
        frozen, event = came_from[frozen]
        events.insert(0, event)
    return ", ".join(f"{name} {actor}" for name, actor in events)


@pytest.mark.parametrize(
    "setup",
    [
        Setup(actors=1, items=3, chunk=2, faults=4),  # one item ends its process: with another, then alone
        Setup(actors=2, items=3, chunk=1, faults=3),
        Setup(actors=2, items=4, chunk=2, faults=2),
        Setup(actors=3, items=3, chunk=1, faults=2),
        Setup(actors=3, items=4, chunk=1, faults=1),
    ],
    ids=str,
)
def test_whatever_happens_every_update_counts_once_and_the_round_ends(setup):
    assert walk(setup) > 2500


def test_an_actor_answers_for_each_task_of_its_chunk():
    state = RoundState()
    state.begin(tasks_of(Setup(actors=1, items=2, chunk=2, faults=0), 1))
    state.actor_ready(0)
    (step,) = state.next_steps()
    assert isinstance(step, Assign)
    with pytest.raises(ValueError, match="zip"):
        state.chunk_done(0, [])


def test_what_a_record_takes_is_learnt_from_chunks_and_kept_for_the_next_round():
    state = RoundState()
    (item,) = tasks_of(Setup(actors=1, items=1, chunk=1, faults=0), 1)
    state.begin([item])
    state.actor_ready(0)
    state.next_steps()
    state.chunk_done(0, [Done(item.message, 8.0)])
    assert state.waiting.seconds([item]) == 8.0
    state.begin([item])
    assert state.waiting.seconds([item]) == 8.0
