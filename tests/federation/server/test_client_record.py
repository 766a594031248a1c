"""A client never answers from what it was before."""

import json
from typing import Any

import pytest

from fl_dp.federation.server.client_record import ClientRecord, client_of
from fl_dp.records import ClientProfile, Entry

ROUND = Entry(0.1, 1.5, 10)


def client(**changes: Any) -> ClientRecord:
    fields = {"node_id": 7, "spent": (ROUND,), "mechanism": ROUND, **changes}
    return ClientRecord(ClientProfile("a", 640, 3.0, 1e-5, (), "rdp"), **fields)


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
]


@pytest.mark.parametrize(("name", "value"), CHANGES)
def test_a_changed_member_answers_as_one_that_was_made_so(name: str, value: Any) -> None:
    changed = client()
    before = answers(changed)
    setattr(changed, name, value)
    made = client()
    made = ClientRecord(**{**made_of(made), name: value})
    assert answers(changed) == answers(made)
    assert answers(changed) != before


def made_of(one: ClientRecord) -> dict[str, Any]:
    return {name: getattr(one, name) for name in ClientRecord.__dataclass_fields__}


def answers(one: ClientRecord) -> tuple[Any, ...]:
    numbers = (one.epsilon(), one.steps(), one.steps_left(500), one.rounds_left(50), one.can_take_part())
    return (*numbers, one.budget, one.row)


@pytest.mark.parametrize(("name", "value"), CHANGES)
def test_a_row_is_read_as_the_member_that_it_was_made_of(name: str, value: Any) -> None:
    one = ClientRecord(**{**made_of(client()), name: value})
    assert client_of(json.loads(one.row)) == one


def test_a_row_of_another_length_is_no_members() -> None:
    with pytest.raises(ValueError, match="zip"):
        client_of([*json.loads(client().row), 1])


def test_a_member_takes_part_as_long_as_one_step_fits() -> None:
    one, rounds = client(spent=()), 0
    while one.can_take_part():
        one.count_as_spent(ROUND)
        rounds += 1
    assert rounds > 1
    assert one.steps_left(1) == 0
    assert one.epsilon() <= 3.0
    assert not client(mechanism=None).can_take_part()
    assert not client(exhausted=True).can_take_part()


def test_the_share_of_a_budget_that_is_left() -> None:
    assert client(spent=()).budget_left() == 1.0
    assert client().budget_left() == 1.0 - client().epsilon() / 3.0
    assert client(spent=(Entry(0.1, 1.5, 9000),)).budget_left() == 1e-3
    assert client(mechanism=Entry(0.1, 0.0, 10)).budget_left() == 1.0
