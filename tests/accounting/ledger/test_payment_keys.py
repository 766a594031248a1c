"""One payment, one key: given again only to the same round, and in no byte of the file once it is erased."""

import itertools
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys

import pytest

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger import payment_keys
from fl_dp.accounting.ledger.export import to_export
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.ledger.payment_keys import PaymentKeys, new_key
from fl_dp.accounting.ledger.requests import DataDeclaration, ReservationRequest
from fl_dp.errors import LedgerError, RoundTakenError
from fl_dp.records import Entry

SETS = 300  # keys on several pages


BUDGET = Budget(1e9, 0.5, "rdp")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path):
    sets = [DataDeclaration(f"d{number}", f"f{number}", 9, "set", "parts") for number in range(SETS)]
    with Ledger.open(path) as ledger:
        ledger.register_all(sets)
        yield ledger


def request(dataset, server_round=1, run="run", inputs="inputs", budget=BUDGET):
    mechanism = (0.1, 1.0) if budget else (0.1, 0.0)
    return ReservationRequest(dataset, run, server_round, Entry(*mechanism, 1), budget, inputs)


def pay(ledger, server_round=1, run="run", sets=SETS):
    """The reservations of all data sets; RoundTakenErrors among them are raised."""
    results = ledger.reserve_all([request(f"d{number}", server_round, run) for number in range(sets)])
    for result in results:
        if isinstance(result, RoundTakenError):
            raise result
    return results


def found(path, keys):
    """Which of the keys are in any byte of the ledger's folder."""
    content = b"".join(file.read_bytes() for file in path.parent.iterdir())
    return {key for key in keys if key in content}


def kept(path, reservations):
    return len(found(path, [one.key for one in reservations]))


def test_every_payment_has_a_key_of_its_own_from_the_systems_entropy(ledger, monkeypatch):
    keys = [one.key for server_round in (1, 2) for one in pay(ledger, server_round)]
    assert {len(key) for key in keys} == {32}
    assert len(set(keys)) == 2 * SETS
    monkeypatch.setattr(payment_keys.secrets, "token_bytes", lambda count: bytes(range(count)))
    assert pay(ledger, 3, sets=1)[0].key == bytes(range(32))


def test_a_repeated_round_has_the_key_of_the_first_time(path, ledger):
    first = pay(ledger)
    assert pay(ledger) == first
    ledger.commit_all(first)
    with Ledger.open(path) as another:
        again = pay(another)
    assert [one.key for one in again] == [one.key for one in first]
    assert all(one.committed for one in again)
    for budget in (BUDGET, None):  # also without privacy, and twice in one request
        one, same = (request("d1", 2, f"{budget}", budget=budget) for _ in range(2))
        first, second = ledger.reserve_all([one, same])
        assert [first] == [second] == ledger.reserve_all([one])


@pytest.mark.parametrize("changed", ["other inputs", ""])
def test_another_round_under_the_same_number_has_no_key(ledger, changed):
    pay(ledger)
    (refused,) = ledger.reserve_all([request("d1", inputs=changed)])
    assert isinstance(refused, RoundTakenError)


@pytest.mark.parametrize("budget", [BUDGET, None], ids=["private", "unprotected"])
def test_a_key_that_may_not_be_repeated_is_never_written(path, ledger, budget):
    paid = ledger.reserve_all([request(f"d{number}", inputs="", budget=budget) for number in range(9)])
    assert {len(one.key) for one in paid} == {32}
    assert kept(path, paid) == 0
    ledger.commit_all(paid)
    assert kept(path, paid) == 0


def test_the_keys_of_a_runs_rounds_up_to_a_number_are_erased_and_no_others(path, ledger):
    """From every byte of the ledger, which is one file; that their rounds are committed erases none."""
    paid = {(run, n): pay(ledger, n, run) for n in (1, 2, 3) for run in ("run", "other")}
    for reservations in paid.values():
        ledger.commit_all(reservations)
        assert kept(path, reservations) == SETS
    ledger.erase_keys("run", 2)
    assert [file.name for file in path.parent.iterdir()] == ["ledger.sqlite"]
    for (run, number), reservations in paid.items():
        gone = run == "run" and number <= 2
        assert kept(path, reservations) == (0 if gone else SETS)
    ledger.erase_keys("run", 3)
    ledger.erase_keys("other", 3)
    assert sum(kept(path, reservations) for reservations in paid.values()) == 0


@pytest.mark.parametrize("seed", [0, 2, 5])
def test_no_copy_stays_where_some_keys_go_and_others_stay(path, ledger, seed):
    """Deleted row by row, some would stay for each of these seeds: SQLite moves rows and forgets where."""
    chance, there, number = random.Random(seed), {}, itertools.count(1)
    database = ledger._log.database
    keys = PaymentKeys(database)
    for share in (0.5, 0.5, 0.5, 0.5, 1.0):
        with database.writing():
            for _ in range(400):
                reservation = next(number)
                there[reservation] = new_key()
                keys.keep(reservation, there[reservation])
        gone = {reservation for reservation in there if chance.random() < share}
        with database.writing():
            keys.erase(gone.__contains__)
        left = {reservation: key for reservation, key in there.items() if reservation not in gone}
        assert found(path, there.values()) == set(left.values())
        there = left


@pytest.mark.parametrize("older", [False, True])
def test_a_round_whose_key_is_gone_is_taken(path, ledger, older):
    """It was erased, or never kept by an older fl_dp: a repetition would be another release."""
    ledger.commit_all(pay(ledger))
    if older:
        connection = sqlite3.connect(path)
        connection.execute("DROP TABLE payment_keys")
        connection.close()
    else:
        ledger.erase_keys("run", 1)
    with Ledger.open(path) as reopened:
        for _ in range(2):
            with pytest.raises(RoundTakenError, match="was already taken; it is not repeated"):
                pay(reopened)
        assert len(pay(reopened, 2)) == SETS


def test_erasing_again_or_before_there_are_keys_changes_nothing(path, ledger):
    ledger.erase_keys("run", 1)
    pay(ledger)
    ledger.erase_keys("run", 1)
    before = path.read_bytes()
    for run, up_to in (("run", 0), ("run", 1), ("run", 7), ("unheard of", 1)):
        ledger.erase_keys(run, up_to)
    assert path.read_bytes() == before


@pytest.mark.parametrize("older", [False, True])
def test_retiring_erases_that_data_sets_keys_and_what_an_older_fl_dp_left_is_not_used(path, ledger, older):
    paid = pay(ledger)
    if older:  # it retired and erased nothing
        with ledger._writing() as book:
            ledger._append(book, "retire", "d7")
    else:
        ledger.retire("d7")
    assert kept(path, [paid[7]]) == older
    assert kept(path, paid) == SETS - 1 + older
    ledger.register("d7", "f7", 9, source="set", cut="parts")
    (refused,) = ledger.reserve_all([request("d7")])
    assert isinstance(refused, RoundTakenError)


def test_no_key_is_in_an_export_an_entry_or_a_text(ledger):
    paid = pay(ledger)
    ledger.commit_all(paid)
    shown = json.dumps(to_export(ledger.rows())) + repr(paid) + str(ledger.accounts())
    assert not any(one.key.hex() in shown or repr(one.key) in shown for one in paid)


def test_what_was_undone_leaves_no_key(path, ledger):
    ledger._log.database.execute("CREATE TABLE ballast (x)")
    with pytest.raises(LedgerError, match="not registered"):
        ledger.reserve_all([request("d1"), request("unknown")])
    first = pay(ledger)  # the table of keys was undone as well
    assert pay(ledger) == first


def test_a_key_of_no_reservation_is_a_damaged_ledger(path, ledger):
    pay(ledger)
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO payment_keys VALUES (99999, x'00')")
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError, match="entry 99999 of the ledger is not a reservation; restore the file"):
        ledger.erase_keys("run", 1)


KILLED = """
import os, signal, sys
from pathlib import Path
from fl_dp.accounting.ledger.ledger import Ledger

with Ledger.open(Path(sys.argv[1])) as ledger:
    if sys.argv[2] == "after":
        ledger.erase_keys("run", 1)
        os.kill(os.getpid(), signal.SIGKILL)
    with ledger._writing() as book:
        ledger._erase_keys(book, lambda dataset, paid: True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("moment", "left"), [("amid", SETS), ("after", 0)])
def test_keys_are_erased_all_or_none_when_a_client_is_killed(path, ledger, moment, left):
    paid = pay(ledger)
    done = subprocess.run([sys.executable, "-c", KILLED, str(path), moment])
    assert done.returncode == -signal.SIGKILL
    with Ledger.open(path) as reopened:
        assert kept(path, paid) == left
        if left:
            assert pay(reopened) == paid
        reopened.erase_keys("run", 1)
        assert kept(path, paid) == 0
    assert not os.path.exists(f"{path}-journal")
