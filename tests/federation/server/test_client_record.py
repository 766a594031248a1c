"""A client never answers from what it was before."""

import json
from dataclasses import replace
from typing import Any

import pytest

from fl_dp.federation.server.client_record import ClientRecord, client_of
from fl_dp.records import ClientProfile, Entry

ROUND = Entry(0.1, 1.5, 10)


def client(**changes: Any) -> ClientRecord:
    fields = {"profile": ClientProfile("a", 640, 3.0, 1e-5, (), "rdp"), "node_id": 7, "spent": (ROUND,)}
    return ClientRecord(**{**fields, "mechanism": ROUND, **changes})


CHANGES = [
    ("profile", ClientProfile("b", 640, 2.0, 1e-6, (), "rdp")),
    ("node_id", 8),
    ("spent", (Entry(0.1, 1.5, 90),)),
    ("mechanism", Entry(0.1, 1.5, 20)),
    ("mechanism", None),
    ("unconfirmed", (ROUND,)),
    ("exhausted", True),
    ("reason", "why"),
    ("rounds", 4),
    ("asked", (ROUND,)),
]


@pytest.mark.parametrize(("name", "value"), CHANGES)
def test_a_changed_member_answers_as_one_that_was_made_so_and_so_does_its_row(name, value):
    changed, made = client(), client(**{name: value})
    before = answers(changed)
    setattr(changed, name, value)
    assert answers(changed) == answers(made) != before
    assert client_of(json.loads(changed.row)) == made


def answers(one: ClientRecord) -> tuple[Any, ...]:
    numbers = (one.epsilon(), one.steps(), one.steps_left(500), one.rounds_left(50), one.can_take_part())
    return (*numbers, one.budget, one.row)


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
def test_what_a_run_has_cost_is_what_it_asked_for_and_the_ledger_shows(asked, before, spent, cost):
    one = client(spent=spent, before=before, asked=asked)
    found = one.run_cost()
    assert (found.charges if found else one.charges()) == cost
    assert one.has_cost is bool(cost)
    assert one.run_epsilon_after(0) == (one.budget.epsilon_of(cost) if cost else 0.0)
    assert one.run_epsilon_after(1) >= one.run_epsilon_after(0)


def test_a_round_that_is_not_answered_is_a_cost_until_the_ledger_shows_otherwise():
    one = client(spent=(PAST,), before=(PAST,))
    one.count_as_spent(ROUND)
    assert one.run_cost().charges == (ROUND,)
    assert replace(one, unconfirmed=()).run_cost().charges == ()


def test_a_row_of_another_length_is_no_members():
    with pytest.raises(ValueError, match="zip"):
        client_of([*json.loads(client().row), 1])


def test_a_member_takes_part_as_long_as_one_step_fits():
    one, rounds = client(spent=()), 0
    while one.can_take_part():
        one.count_as_spent(ROUND)
        rounds += 1
    assert rounds > 1
    assert one.steps_left(1) == 0
    assert one.epsilon() <= 3.0
    assert not client(mechanism=None).can_take_part()
    assert not client(exhausted=True).can_take_part()
