"""Shares of an entry: no place merges, matches or writes mechanisms as if they were not there."""

import json
from dataclasses import replace

import pytest

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.cost import charges_of
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.events import merge
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.ledger.requests import ReservationRequest
from fl_dp.accounting.one_mechanism import OneMechanismBudget, conflict
from fl_dp.errors import ConfigError
from fl_dp.federation.server.client_record import ClientRecord, shows_less
from fl_dp.federation.server.history import History
from fl_dp.federation.server.state import RunState, read_state, write_state
from fl_dp.records import ClientProfile, Entry
from fl_dp.statements import AccountStatement, Statement
from fl_dp.verify import claims

PLAIN, SHARED, MORE = Entry(0.1, 2.0, 5), Entry(0.1, 2.0, 5, 8), Entry(0.1, 2.0, 5, 9)
ALL = (PLAIN, SHARED, MORE)
BUDGET = Budget(3.0, 1e-5, "rdp")


@pytest.mark.parametrize(
    ("noise", "shares", "words"),
    [
        *((1.0, wrong, "an integer from 1 to 100") for wrong in (0, 101, True, 2.0, "2")),
        (0.0, 2, "without noise"),
    ],
)
def test_an_entry_has_whole_shares_of_noise(noise, shares, words):
    with pytest.raises(ConfigError, match=words):
        Entry(0.1, noise, 1, shares)


@pytest.mark.parametrize("key", ["copies", "pass_steps"])
def test_steps_that_fl_dp_1_0_paid_for_are_never_read_as_cheaper_ones(key):
    assert Entry.from_dict(PLAIN.to_dict() | {key: 1}) == PLAIN
    for read in (Entry.from_dict, lambda found: charges_of([found])):
        with pytest.raises(ValueError, match=r"whose cost only fl_dp 1\.0 knows"):
            read(PLAIN.to_dict() | {key: 2})


def test_no_merge_takes_one_for_another():
    assert merge((*ALL, *ALL)) == tuple(sorted(one.taking(10) for one in ALL))


def test_what_is_missing_is_looked_for_by_all_fields():
    for short in ALL:
        others = tuple(one for one in ALL if one is not short)
        assert claims.missing(others, ALL) == (short,)
        assert shows_less(others, ALL)
    assert not shows_less(ALL, ALL)


def test_they_are_written_only_where_they_are_not_one():
    assert PLAIN.to_dict() == {"sample_rate": 0.1, "noise_multiplier": 2.0, "steps": 5}
    assert SHARED.to_dict() == {**PLAIN.to_dict(), "shares": 8}
    assert [Entry.from_dict(one.to_dict()) for one in ALL] == list(ALL)
    assert charges_of([one.to_dict() for one in ALL]) == ALL
    with pytest.raises(ValueError, match="charged twice"):
        charges_of([SHARED.to_dict(), SHARED.to_dict()])
    many = [Entry(1 / (number + 2), 2.0, 5).to_dict() for number in range(1001)]
    assert len(charges_of(many[1:])) == 1000
    with pytest.raises(ValueError, match="no list of charges"):
        charges_of(many)


def test_a_statement_states_them_and_keeps_its_old_spelling_without():
    account = AccountStatement("a", "d", "record", 9, (PLAIN,), 1.0, 1e-5, 3.0, "pld", "steady-rows")
    old = Statement("7", "ab" * 32, "cd" * 32, 0, "2026", "0.1", (account,))
    assert "shares" not in old.to_text()
    assert "alone" not in old.to_text()
    new = replace(old, accounts=(replace(account, spent=ALL),))
    assert Statement.from_text(new.to_text()) == new
    spelt_out = new.to_text().replace('"noise_multiplier":2.0,', '"noise_multiplier":2.0,"shares":1,', 1)
    with pytest.raises(ConfigError, match="not in canonical form"):
        Statement.from_text(spelt_out)


def test_a_server_keeps_them_between_rounds(tmp_path):
    record = ClientRecord(
        ClientProfile("a", 640, 3.0, 1e-5, ALL, "rdp"), 1, ALL, MORE, unconfirmed=(SHARED,), before=(PLAIN,)
    )
    state = RunState(run="r", settings={}, secret=b"s", clients=(record,))
    write_state(tmp_path / "state.npz", state)
    assert read_state(tmp_path / "state.npz").clients == (record,)
    asked = ClientRecord(ClientProfile("a", 640, 3.0, 1e-5, (), "rdp"), 1, (), SHARED)
    # what was not confirmed counts as what was asked for
    assert asked.not_confirming(SHARED).cost.charges == (SHARED,)


def test_the_ledger_keeps_them(tmp_path):
    with Ledger.open(tmp_path / "l.sqlite") as ledger:
        ledger.register("data", "print", 100)
        ledger.reserve("data", "run", 1, Entry(0.1, 2.0, 5), BUDGET)
        paid = ledger.reserve_all([ReservationRequest("data", "run", 2, Entry(0.1, 2.0, 5, 8), BUDGET)])[0]
        assert paid.entry == SHARED
        rows = [json.loads(row.content) for row in ledger.rows()]
    assert [row["kind"] for row in rows] == ["register", "reserve", "reserve-shared"]
    assert rows[2]["shares"] == 8
    assert "shares" not in rows[1]
    with Ledger.open(tmp_path / "l.sqlite") as ledger:
        assert ledger.spent("data") == (PLAIN, SHARED)
        assert ledger.accounts()[0].rounds[1].entry == SHARED


def test_of_whose_shares_the_noise_is_changes_nothing_for_who_sees_the_sum():
    for accountant in ("pld", "rdp"):
        assert compute_epsilon((SHARED,), 1e-5, accountant) == compute_epsilon((PLAIN,), 1e-5, accountant)


def test_one_mechanism_lets_shares_vary():
    budget = OneMechanismBudget(3.0, 1e-5)
    assert budget.steps_that_fit(Entry(0.1, 2.0, 3, 1), (SHARED,)) == 3
    assert budget.steps_that_fit(Entry(0.1, 2.0, 3, 50), (PLAIN,)) == 3
    assert not conflict(PLAIN, (SHARED, MORE))


def test_a_history_tells_other_mechanisms_from_its_own():
    history = History(BUDGET, SHARED, ALL[:2])
    assert history.steps_left(3) == BUDGET.steps_that_fit(Entry(0.1, 2.0, 3, 8), ALL[:2])
    assert history.rounds_left(2) == 2
