"""Promise: the item that ends a process is found, and items of the same chunk are not blamed."""

from fl_dp.records import RoundPlan
from fl_dp.simulation.quarantine import TRIES, Quarantine
from fl_dp.simulation.work import ClientWork

PLAN = RoundPlan("run", 1, "linear", 2, 4, 0.1, 0.0, 1.0, 1.0)
ITEMS = [ClientWork(str(k), str(k), k, PLAN, 2, 0.1, None) for k in range(3)]


def test_no_task_is_in_quarantine_at_first():
    quarantine = Quarantine()
    assert not quarantine
    assert ITEMS[0] not in quarantine


def test_all_that_a_process_had_are_quarantined_and_come_back_in_order():
    quarantine = Quarantine()
    assert quarantine.put(ITEMS[:2]) == []
    assert quarantine
    assert [item in quarantine for item in ITEMS] == [True, True, False]
    assert [quarantine.take(), quarantine.take()] == ITEMS[:2]
    assert not quarantine
    assert ITEMS[0] in quarantine  # while it is tried, too


def test_only_ends_by_itself_count():
    quarantine = Quarantine()
    for _ in range(2 * TRIES):
        assert quarantine.put(ITEMS[:2]) == []
        quarantine.take(), quarantine.take()
    for _ in range(TRIES - 1):
        assert quarantine.put(ITEMS[:1]) == []
        quarantine.take()
    assert quarantine.put(ITEMS[:1]) == ITEMS[:1]
    assert not quarantine


def test_what_is_given_up_stays_in_quarantine_until_the_next_round():
    quarantine = Quarantine()
    quarantine.put(ITEMS)
    quarantine.give_up()
    assert not quarantine
    assert ITEMS[0] in quarantine
    quarantine.begin()
    assert ITEMS[0] not in quarantine
