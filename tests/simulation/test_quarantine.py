"""Promise: who ends a process is found out, and whoever was only beside it is not."""

from fl_dp.records import RoundPlan
from fl_dp.simulation.quarantine import TRIES, Quarantine
from fl_dp.simulation.work import ClientWork

PLAN = RoundPlan("run", 1, "linear", 2, 4, 0.1, 0.0, 1.0, 1.0)
TASKS = [ClientWork(str(k), str(k), k, PLAN, 2, 0.1, None) for k in range(3)]


def test_nobody_is_a_suspect_at_first() -> None:
    suspects = Quarantine()
    assert not suspects
    assert TASKS[0] not in suspects


def test_all_that_were_there_are_suspects_and_come_back_in_order() -> None:
    suspects = Quarantine()
    assert suspects.put(TASKS[:2]) == []
    assert suspects
    assert [task in suspects for task in TASKS] == [True, True, False]
    assert [suspects.take(), suspects.take()] == TASKS[:2]
    assert not suspects
    assert TASKS[0] in suspects  # while it is tried, too


def test_only_ends_by_itself_count() -> None:
    suspects = Quarantine()
    for _ in range(2 * TRIES):
        assert suspects.put(TASKS[:2]) == []
        suspects.take(), suspects.take()
    for _ in range(TRIES - 1):
        assert suspects.put(TASKS[:1]) == []
        suspects.take()
    assert suspects.put(TASKS[:1]) == TASKS[:1]
    assert not suspects


def test_who_is_given_up_stays_a_suspect_until_the_next_round() -> None:
    suspects = Quarantine()
    suspects.put(TASKS)
    suspects.give_up()
    assert not suspects
    assert TASKS[0] in suspects
    suspects.begin()
    assert TASKS[0] not in suspects
