"""The file of a ledger: made whole by one of many, and the only one with entries."""

import multiprocessing
import os
import sqlite3

import pytest

from fl_dp.accounting.ledger import database
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.errors import LedgerError

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["__main__", __name__])


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


def test_every_ledger_is_on_the_disk_before_it_answers_and_overwrites_what_it_deletes(tmp_path):
    with Ledger.open(tmp_path / "new.sqlite") as ledger:
        names = ("journal_mode", "synchronous", "fullfsync", "secure_delete", "temp_store", "busy_timeout")
        found = [ledger._log.database.pragma(name) for name in names]
    assert found == ["delete", 3, 1, 1, 2, 60_000]  # EXTRA; in memory; milliseconds


def test_a_ledger_whose_last_entries_may_be_in_a_second_file_is_refused_until_they_are_moved(path):
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    with pytest.raises(LedgerError, match="may be in a second file, the write-ahead log"):
        Ledger.open(path)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    Ledger.open(path).close()
