"""What a client has cost, and may have."""

from dataclasses import replace
from typing import Any

import pytest

from fl_dp.federation.server.client_record import ClientRecord
from fl_dp.records import ClientProfile, Entry

ROUND = Entry(0.1, 1.5, 10)


def client(**changes: Any) -> ClientRecord:
    fields = {"profile": ClientProfile("a", 640, 3.0, 1e-5, (), "rdp"), "node_id": 7, "spent": (ROUND,)}
    return ClientRecord(**{**fields, "mechanism": ROUND, **changes})


A, B, PAST = Entry(0.1, 1.5, 10), Entry(0.1, 1.5, 20), Entry(0.2, 3.0, 9)
IN_SUM = Entry(0.1, 1.5, 10, 8)


@pytest.mark.parametrize(
    ("asked", "before", "spent", "cost"),
    [
        ((), (PAST,), (PAST,), ()),  # claimed, and never asked for
        ((A,), (), (), ()),  # asked, and its ledger shows that it has not paid
        ((A,), (PAST,), (A, PAST), (A,)),
        ((A,), (B,), (Entry(0.1, 1.5, 30),), (A,)),  # the same mechanism as before
        ((A,), (), (B, PAST), (A,)),  # another run has paid meanwhile, and a liar can say so
        ((B,), (), (A,), (A,)),  # of a lost round as much as was paid for
        ((IN_SUM,), (), (Entry(0.1, 1.5, 10, 5),), (Entry(0.1, 1.5, 10, 5),)),  # members were gone
        ((IN_SUM,), (), (Entry(0.1, 1.5, 10, 9),), ()),  # fewer were asked for: the server plans no more
    ],
)
def test_a_run_cost_what_it_asked_for_and_the_ledger_shows(asked, before, spent, cost):
    one = client(spent=spent, before=before, asked=asked)
    assert one.cost_of_run.charges == cost
    assert one.has_more_than_the_run is (cost != one.cost.charges)
    assert one.has_cost is bool(cost)
    assert one.run_epsilon_after(0) == (one.budget.epsilon_of(cost) if cost else 0.0)
    assert one.run_epsilon_after(1) >= one.run_epsilon_after(0)


def test_a_round_that_is_not_answered_is_a_cost_until_the_ledger_shows_otherwise():
    one = client(spent=(PAST,), before=(PAST,)).not_confirming(ROUND)
    assert one.cost_of_run.charges == (ROUND,)
    assert replace(one, unconfirmed=()).cost_of_run.charges == ()


def test_a_member_takes_part_as_long_as_one_step_fits():
    one, rounds = client(spent=()), 0
    while one.can_take_part():
        one = one.not_confirming(ROUND)
        rounds += 1
        assert rounds < 1000  # uncounted, they would go on for ever
    assert rounds > 1
    assert one.steps_left(1) == 0
    assert one.cost.epsilon <= 3.0
    assert not client(mechanism=None).can_take_part()
    assert not client(exhausted=True).can_take_part()
