"""The file of a ledger: made whole by one of many, converted from an older write-ahead log."""

import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import time

import pytest

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger import database
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.errors import LedgerError
from fl_dp.records import Entry, total_steps

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["__main__", __name__])
BUDGET = Budget(epsilon=100.0, delta=1e-5, accountant="rdp")
ROUNDS = 30


def open_when_told(path, start, name):
    assert start.wait(60)
    with Ledger.open(path) as ledger:
        ledger.register(name, f"f-{name}", 1000)


def opened_at_once(path, openers):
    """Open the ledger by several processes that begin together; each enters a data set."""
    start = PROCESSES.Event()
    clients = [PROCESSES.Process(target=open_when_told, args=(path, start, f"{n}")) for n in range(openers)]
    for client in clients:
        client.start()
    start.set()
    for client in clients:
        client.join(60)
    return [client.exitcode for client in clients]


def test_of_many_that_make_a_ledger_at_once_none_is_refused(tmp_path):
    """While a maker gives the file its name, it has two for a moment: that must alarm nobody."""
    for attempt in range(2):
        folder = tmp_path / f"{attempt}"
        assert opened_at_once(folder / "ledger.sqlite", 3) == [0] * 3
        with Ledger.open(folder / "ledger.sqlite") as ledger:
            assert len(ledger.accounts()) == 3
        assert [file.name for file in folder.iterdir()] == ["ledger.sqlite"]
        assert (folder / "ledger.sqlite").stat().st_nlink == 1


def test_a_maker_that_is_killed_between_its_two_names_costs_nothing(tmp_path, monkeypatch):
    link = os.link

    def link_and_end(source, target):
        link(source, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "link", link_and_end)
    monkeypatch.setattr(database.Path, "unlink", lambda *arguments, **options: None)
    with pytest.raises(KeyboardInterrupt):
        Ledger.open(tmp_path / "ledger.sqlite")
    monkeypatch.undo()
    assert (tmp_path / "ledger.sqlite").stat().st_nlink == 2
    Ledger.open(tmp_path / "ledger.sqlite").close()
    assert [file.name for file in tmp_path.iterdir()] == ["ledger.sqlite"]


def test_a_long_entry_keeps_no_reader_waiting(tmp_path, monkeypatch):
    """More than SQLite's cache holds: it would begin to write the file, and lock it, before the commit."""
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.05)
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger, ledger._log.writing():
        ledger._log.new_events()
        for _ in range(4000):
            ledger._log.append({"kind": "test", "text": "x" * 1000})
        Ledger.open(tmp_path / "ledger.sqlite").close()


@pytest.fixture
def old(tmp_path):
    """A ledger as an older fl_dp leaves it after a crash: its last entries are in the write-ahead log."""
    path = tmp_path / "made.sqlite"
    with Ledger.open(path) as ledger:
        ledger.register("digits", "f1", 1000)
        few = len(ledger.rows())
        for server_round in range(ROUNDS):
            ledger.reserve("digits", "run", server_round, Entry(0.1, 1.0, 1), BUDGET)
        rows = ledger.rows()
    path = tmp_path / "old.sqlite"
    with Ledger.open(path):
        pass
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executemany("INSERT INTO events VALUES (?, ?, ?)", rows[:few])
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for row in rows[few:]:
        connection.execute("INSERT INTO events VALUES (?, ?, ?)", row)
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{tmp_path / 'ledger.sqlite'}{suffix}")
    connection.close()
    path.unlink()
    (tmp_path / "made.sqlite").unlink()
    return tmp_path / "ledger.sqlite"


def spent_steps(path):
    with Ledger.open(path) as ledger:
        return total_steps(ledger.spent("digits"))


def is_converted(path):
    """Whether the file says so itself: bytes 18 and 19 of SQLite's header are 1, of one with such a log 2."""
    return path.read_bytes()[18:20] == b"\1\1"


def test_the_entries_in_a_write_ahead_log_are_moved_into_the_file(old, tmp_path):
    assert not is_converted(old)
    assert b'"round": 29' not in old.read_bytes()
    assert spent_steps(old) == ROUNDS
    assert is_converted(old)
    assert [file.name for file in tmp_path.iterdir()] == ["ledger.sqlite"]
    shutil.copy(old, tmp_path / "copy")
    assert spent_steps(tmp_path / "copy") == ROUNDS


@pytest.mark.parametrize("kind", ["new", "converted"])
def test_every_ledger_is_on_the_disk_before_it_answers_and_overwrites_what_it_deletes(old, tmp_path, kind):
    with Ledger.open(old if kind == "converted" else tmp_path / "new.sqlite") as ledger:
        names = ("journal_mode", "synchronous", "fullfsync", "secure_delete", "temp_store", "busy_timeout")
        found = [ledger._log.database.pragma(name) for name in names]
    assert found == ["delete", 3, 1, 1, 2, 60_000]  # EXTRA; in memory; milliseconds


def test_the_way_back_is_one_statement_of_sqlite(old):
    assert spent_steps(old) == ROUNDS
    connection = sqlite3.connect(old)
    assert connection.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    connection.close()
    assert not is_converted(old)
    assert spent_steps(old) == ROUNDS


def test_a_ledger_that_an_older_process_has_open_is_waited_for_and_then_refused(old, monkeypatch):
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.2)
    client = sqlite3.connect(old)
    client.execute("SELECT count(*) FROM events").fetchone()
    with pytest.raises(LedgerError, match="another process has the ledger open, with the write-ahead log"):
        Ledger.open(old)
    client.close()
    assert spent_steps(old) == ROUNDS


def test_of_many_that_convert_a_ledger_at_once_none_is_refused(old):
    assert opened_at_once(old, 3) == [0] * 3
    assert is_converted(old)
    assert spent_steps(old) == ROUNDS


def convert(path, replies):
    replies.send_bytes(b"ready")
    Ledger.open(path)
    replies.send_bytes(b"done")
    signal.pause()


def converting(old, folder):
    """A process that begins to convert a copy of the ledger now, the pipe of its replies, and the copy."""
    folder.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(f"{old}{suffix}", folder / f"ledger.sqlite{suffix}")
    replies, theirs = PROCESSES.Pipe(duplex=False)
    client = PROCESSES.Process(target=convert, args=(folder / "ledger.sqlite", theirs))
    client.start()
    theirs.close()
    assert replies.recv_bytes() == b"ready"
    return client, replies, folder / "ledger.sqlite"


def seconds_of_a_conversion(old, folder):
    client, replies, _ = converting(old, folder)
    start = time.perf_counter()
    assert replies.recv_bytes() == b"done"
    seconds = time.perf_counter() - start
    client.kill()
    client.join(60)
    return seconds


@pytest.mark.slow
def test_a_conversion_that_is_killed_at_any_of_100_moments_loses_nothing(old, tmp_path):
    longest = max(seconds_of_a_conversion(old, tmp_path / f"whole {number}") for number in range(5))
    moments, converted = random.Random(5), 0
    for number in range(100):
        client, _, path = converting(old, tmp_path / f"{number}")
        time.sleep(moments.uniform(0.0, 1.5 * longest))
        client.kill()
        client.join(60)
        converted += is_converted(path)
        assert spent_steps(path) == ROUNDS
    assert 0 < converted < 100  # moments before and after
