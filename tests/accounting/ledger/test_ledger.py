"""The ledger: no step is taken that would pass the budget, whatever crashes, races or replays there are."""

import json
import multiprocessing
import os
import sqlite3

import pytest

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.event_log import EventLog
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.ledger.requests import Reservation
from fl_dp.errors import BudgetExhaustedError, DeclinedError, LedgerError
from fl_dp.records import Entry, total_steps

BUDGET = Budget(epsilon=3.0, delta=1e-5, accountant="rdp")
MECHANISM = (0.1, 1.0)


def test_reserved_and_committed_steps_count_alike_and_survive(path):
    with Ledger.open(path) as ledger:
        assert ledger.spent("digits") == ()
        ledger.commit(ledger.reserve("digits", "run", 1, Entry(*MECHANISM, 2), BUDGET))
        ledger.reserve("digits", "run", 2, Entry(*MECHANISM, 1), BUDGET)
        ledger.reserve("digits", "run", 3, Entry(0.2, 2.0, 1), BUDGET)
    with Ledger.open(path) as ledger:
        assert ledger.spent("digits") == (Entry(0.1, 1.0, 3), Entry(0.2, 2.0, 1))


def test_a_ledger_is_of_one_run_as_long_as_nobody_else_has_entered_anything(tmp_path):
    path = tmp_path / "own" / "ledger.sqlite"
    for server_round in (1, 2):  # the second time it is resumed, perhaps under another name
        with Ledger.open(path, one_run=True) as own:
            own.register("digits", "f1", 1000)
            own.reserve("digits", f"run {server_round}", server_round, Entry(*MECHANISM, 1), BUDGET)
            assert own.of_one_run()
    with Ledger.open(path) as another:  # of --ledger, which has entered nothing yet
        another.register("digits", "f1", 1000)
        assert not another.of_one_run()
    with Ledger.open(path, one_run=True) as own:
        assert own.of_one_run()
        with Ledger.open(path) as another:
            another.commit(another.reserve("digits", "another", 1, Entry(*MECHANISM, 1), BUDGET))
        assert not own.of_one_run()


def test_an_older_ledger_is_of_no_run_alone(path):
    with Ledger.open(path, one_run=True) as ledger:
        ledger.reserve("digits", "run", 1, Entry(*MECHANISM, 1), BUDGET)
        assert not ledger.of_one_run()


def _spend(ledger, name, mechanism=MECHANISM, steps=1):
    for server_round in range(200):
        ledger.commit(ledger.reserve("digits", name, server_round, Entry(*mechanism, steps), BUDGET))


def test_budgets_span_runs_and_end_at_the_wall(path):
    with Ledger.open(path) as ledger:
        for name in ("one run", "another"):
            with pytest.raises(BudgetExhaustedError, match="of 3 is spent"):
                _spend(ledger, name, steps=7)
        taken = total_steps(ledger.spent("digits"))
    assert (
        BUDGET.epsilon_of([Entry(0.1, 1.0, taken)]) <= 3.0 < BUDGET.epsilon_of([Entry(0.1, 1.0, taken + 1)])
    )


def test_a_replayed_round_is_declined_and_costs_nothing(ledger):
    ledger.reserve("digits", "run", 1, Entry(*MECHANISM, 2), BUDGET)
    with pytest.raises(DeclinedError, match="Round 1 of run run was already taken"):
        ledger.reserve("digits", "run", 1, Entry(*MECHANISM, 2), BUDGET)
    assert ledger.spent("digits") == (Entry(0.1, 1.0, 2),)


def test_public_size_and_records_are_those_of_the_first_use(ledger):
    assert ledger.register("digits", "f1", 1007, digests=lambda: pytest.fail("asked again")) == 1000


def test_parts_of_another_cut_are_refused_until_the_first_ones_are_retired(ledger):
    for part in ("a", "b"):
        ledger.register(part, f"f-{part}", 9, source="set", cut="2 parts")
    for name, cut in (("c", "3 parts"), ("set", "")):
        with pytest.raises(LedgerError, match=f"this ledger has set as a; {name} would share records"):
            ledger.register(name, "f4", 9, source="set", cut=cut)
    ledger.retire("a")
    with pytest.raises(LedgerError, match="this ledger has set as b"):
        ledger.register("set", "f4", 9)
    ledger.retire("b")
    assert ledger.register("set", "f4", 9) == 9
    assert ledger.retirements() == 2


def test_a_set_with_many_of_the_same_records_is_noticed(path):
    first, second = ([os.urandom(32) for _ in range(3000)] for _ in range(2))
    with Ledger.open(path) as ledger:
        ledger.register("first", "f2", 3000, digests=lambda: first)
        with pytest.raises(LedgerError, match="subset seems to share many records with first"):
            ledger.register("subset", "f3", 2999, digests=lambda: first[1:])
        ledger.register("second", "f4", 3000, digests=lambda: second)
    with Ledger.open(path) as ledger, pytest.raises(LedgerError, match="mixed seems to share many"):
        ledger.register("mixed", "f5", 3000, digests=lambda: first[:1500] + [os.urandom(32)] * 1500)


def test_the_key_of_the_sketches_is_this_files_own_and_is_not_exported(path, tmp_path):
    records = [os.urandom(32) for _ in range(10)]
    keys, texts = [], []
    for name in ("one", "two"):
        with Ledger.open(tmp_path / f"{name}.sqlite") as ledger:
            ledger.register("data", "f1", 10, digests=lambda: records)
            texts.append(ledger.rows()[0].content)
            with ledger._log.writing():
                keys.append(ledger._log.secret())
    assert len(set(keys)) == 2
    assert json.loads(texts[0])["sketch"] != json.loads(texts[1])["sketch"]
    for record in records:
        assert record.hex()[:16] not in texts[0]
    assert keys[0].hex() not in texts[0]


def test_what_several_have_spent_is_told_in_their_order_and_of_strangers_nothing(ledger):
    ledger.register("mnist", "f2", 1000)
    ledger.reserve("digits", "run", 1, Entry(*MECHANISM, 2), BUDGET)
    assert ledger.spent_all(["mnist", "digits"]) == [(), (Entry(0.1, 1.0, 2),)]
    for use in (
        lambda: ledger.spent_all(["digits", "mnits"]),
        lambda: ledger.reserve("mnits", "run", 1, Entry(*MECHANISM, 2), BUDGET),
    ):
        with pytest.raises(LedgerError, match="mnits is not registered"):
            use()


def test_a_reservation_is_committed_once(ledger):
    reservation = ledger.reserve("digits", "run", 1, Entry(*MECHANISM, 2), BUDGET)
    ledger.commit(reservation)
    for wrong in (reservation, Reservation(99, reservation.entry, reservation.key)):
        with pytest.raises(LedgerError, match="not open to be committed"):
            ledger.commit(wrong)


def _spend_all(path, name, start):
    assert start.wait(60)
    with Ledger.open(path) as ledger, pytest.raises(BudgetExhaustedError):
        _spend(ledger, name)


def test_two_processes_never_overspend_together(path):
    context = multiprocessing.get_context("spawn")
    start = context.Event()
    racers = [context.Process(target=_spend_all, args=(path, name, start)) for name in ("a", "b")]
    for racer in racers:
        racer.start()
    start.set()
    for racer in racers:
        racer.join(60)
        assert racer.exitcode == 0
    with Ledger.open(path) as ledger:
        steps = total_steps(ledger.spent("digits"))
    assert BUDGET.epsilon_of([Entry(*MECHANISM, steps)]) <= 3.0
    assert BUDGET.epsilon_of([Entry(*MECHANISM, steps + 1)]) > 3.0


def test_a_reader_is_not_alarmed_by_a_writer(path):
    context = multiprocessing.get_context("spawn")
    ready, opened = context.Event(), context.Event()
    writer = context.Process(target=_write, args=(path, ready, opened))
    writer.start()
    assert ready.wait(60)
    with Ledger.open(path) as ledger:  # before the first entry: opening reads what the entries mean
        opened.set()
        while writer.is_alive():
            ledger.rows()
    assert writer.exitcode == 0


def _write(path, ready, opened):
    log = EventLog.open(path, create=False)
    ready.set()
    assert opened.wait(60)
    for _ in range(100):
        with log.writing():
            log.new_events()
            log.append({"kind": "test"})
    log.close()


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM events WHERE id = 2",
        "DELETE FROM events WHERE id = 4",  # the last
        "DELETE FROM events",
        """UPDATE events SET content = replace(content, '"steps": 2', '"steps": 1')""",
    ],
)
def test_an_edited_or_removed_entry_is_found_and_nothing_may_be_trained(path, statement):
    with Ledger.open(path) as ledger:
        for server_round in (1, 2, 3):
            ledger.reserve("digits", "run", server_round, Entry(*MECHANISM, 2), BUDGET)
        assert len(ledger.rows()) == 4
        connection = sqlite3.connect(path)
        connection.executescript(f"DROP TRIGGER events_stay; DROP TRIGGER events_remain; {statement}")
        connection.close()
        with pytest.raises(LedgerError, match="edited or removed"):
            ledger.reserve("digits", "run", 4, Entry(*MECHANISM, 1), BUDGET)
    with pytest.raises(LedgerError, match="Restore the file"):
        Ledger.open(path)


def test_rows_cannot_be_changed_by_accident(path):
    connection = sqlite3.connect(path)
    for statement in ("DELETE FROM events", "UPDATE events SET content = ''"):
        with pytest.raises(sqlite3.IntegrityError, match="append only"):
            connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda whole: b"", ""),
        (lambda whole: b"not a database at all" * 100, ""),
        (lambda whole: whole[:4096] + os.urandom(4096) + whole[8192:], ".*restore it"),
    ],
)
def test_a_file_that_is_no_ledger_or_damaged_is_refused_and_left_alone(path, change, words):
    content = change(path.read_bytes())
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=rf"ledger\.sqlite{words}"):
        Ledger.open(path)
    assert path.read_bytes() == content
