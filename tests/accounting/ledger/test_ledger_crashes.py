"""Crashes: whatever ends a client, and whenever, its ledger holds at least the steps that it has released.

The clients here do what a real one does, with nothing between: reserve, train (a line), commit, reply.
"""

import itertools
import multiprocessing
import os
import random
import shutil
import signal
import sys
import time
from contextlib import suppress

import pytest

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.ledger.requests import ReservationRequest
from fl_dp.errors import LedgerError
from fl_dp.records import Entry, total_steps

MECHANISM = (0.1, 1.0)
PAGE = 4096  # bytes
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["__main__", __name__])


class Endless(Budget):
    """A budget without an end, so that the time goes by where the file is written."""

    def steps_that_fit(self, planned, spent):
        return planned.steps


BUDGET = Endless(1.0, 1e-5, "rdp")


def begin(path):
    with Ledger.open(path) as ledger:
        ledger.register("digits", "f1", 1000)
    return path


def take_rounds(path, run, replies):
    """Reply b"." to each round after its commit, without an end."""
    with Ledger.open(path) as ledger:
        replies.send_bytes(b"ready")
        for server_round in itertools.count():
            reservation = ledger.reserve("digits", run, server_round, Entry(*MECHANISM, 1), BUDGET)
            ledger.commit(reservation)
            replies.send_bytes(b".")


def start(function, *arguments):
    """A client and the pipe of its replies; it is ready."""
    replies, theirs = PROCESSES.Pipe(duplex=False)
    client = PROCESSES.Process(target=function, args=(*arguments, theirs))
    client.start()
    theirs.close()
    assert replies.poll(60)
    assert replies.recv_bytes() == b"ready"
    return client, replies


def received(replies):
    """How many replies have come; the pipe of a dead client ends."""
    count = 0
    try:
        while replies.poll():
            count += replies.recv_bytes() == b"."
    except EOFError:
        pass
    return count


def assert_killed(client):
    client.join(60)
    assert client.exitcode == -signal.SIGKILL


def spent_steps(path):
    """What the ledger says; LedgerError if it cannot be trusted."""
    with Ledger.open(path) as ledger:
        return total_steps(ledger.spent("digits"))


@pytest.mark.parametrize(("ledgers", "kills"), [(1, 4), pytest.param(10, 20, marks=pytest.mark.slow)])
def test_a_client_that_is_killed_at_any_moment_has_spent_what_it_released(tmp_path, ledgers, kills):
    moments = random.Random(20240601)
    for ledger in range(ledgers):
        path, released = begin(tmp_path / f"{ledger}.sqlite"), 0
        for kill in range(kills):
            client, replies = start(take_rounds, path, f"run {kill}")
            for _ in range(moments.randrange(3)):
                released += replies.recv_bytes() == b"."
            time.sleep(moments.uniform(0.0, 0.01))
            os.kill(client.pid, signal.SIGKILL)
            assert_killed(client)
            released += received(replies)
            replies.close()
            spent = spent_steps(path)
            assert released <= spent <= released + kill + 1  # at most one round of each was cut short
        assert released > 0


def kill_at_line(path, number, replies):
    """One round, and SIGKILL where its `number`-th line of the accounting begins."""
    with Ledger.open(path) as ledger:
        replies.send_bytes(b"ready")
        sys.settrace(LineCounter(number))
        ledger.commit(ledger.reserve("digits", "run", 1, Entry(*MECHANISM, 1), BUDGET))
        replies.send_bytes(b".")


class LineCounter:
    """A tracer that counts the lines of fl_dp/accounting, and kills the process at line number `last`."""

    def __init__(self, last=None):
        self.last, self.count = last, 0

    def __call__(self, frame, event, argument):
        return self._line if os.path.join("fl_dp", "accounting", "") in frame.f_code.co_filename else None

    def _line(self, frame, event, argument):
        if event == "line":
            self.count += 1
            if self.count == self.last:
                os.kill(os.getpid(), signal.SIGKILL)
        return self._line


def lines_of_a_round(path):
    counter, before = LineCounter(), sys.gettrace()
    with Ledger.open(path) as ledger:
        sys.settrace(counter)
        try:
            ledger.commit(ledger.reserve("digits", "run", 1, Entry(*MECHANISM, 1), BUDGET))
        finally:
            sys.settrace(before)
    return counter.count


@pytest.mark.parametrize("some", [4, pytest.param(None, marks=pytest.mark.slow)])
def test_a_client_that_is_killed_at_any_line_of_a_round_has_spent_what_it_released(tmp_path, some):
    begin(tmp_path / "begun.sqlite")
    shutil.copy(tmp_path / "begun.sqlite", tmp_path / "counted.sqlite")
    lines = range(1, lines_of_a_round(tmp_path / "counted.sqlite") + 1)
    outcomes = set()
    for number in sorted({1, *random.Random(0).sample(lines, some - 2), len(lines)}) if some else lines:
        path = shutil.copy(tmp_path / "begun.sqlite", tmp_path / f"{number}.sqlite")
        client, replies = start(kill_at_line, path, number)
        assert_killed(client)
        assert received(replies) == 0
        outcomes.add(spent_steps(path))
    assert outcomes == {0, 1}  # before the reservation was on disk, and after


def entered(path, journal):
    """Reserve a round; the file before and after, and the journal as it was before SQLite deleted it."""
    before = path.read_bytes()
    with Ledger.open(path) as ledger, ledger._writing() as book:
        ledger._reserve(
            book, ReservationRequest("digits", "run", len(before), Entry(*MECHANISM, 1), BUDGET, "inputs")
        )
        os.link(f"{path}-journal", journal)  # a second name, which stays
    return before, path.read_bytes(), journal.read_bytes()


@pytest.fixture(params=[0, 11, 40], ids="{} entries".format)
def stages(request, tmp_path):
    """Of an entry that makes the file longer, after some others."""
    path = begin(tmp_path / "ledger.sqlite")
    with Ledger.open(path) as ledger:
        for server_round in range(request.param):
            ledger.reserve("digits", "before", server_round, Entry(*MECHANISM, 1), BUDGET)
    return request.param, *entered(path, tmp_path / "journal")


def reopened(folder, main, journal):
    (folder / "copy").write_bytes(main)
    (folder / "copy-journal").unlink(missing_ok=True)
    if journal is not None:
        (folder / "copy-journal").write_bytes(journal)
    return spent_steps(folder / "copy")


def garbage_where_written(before, after):
    """The file after an entry, with noise in place of each page that the entry changed."""
    noise, pages = random.Random(3), range(0, len(after), PAGE)
    changed = [before[page : page + PAGE] != after[page : page + PAGE] for page in pages]
    return b"".join(
        noise.randbytes(PAGE) if new else after[page : page + PAGE]
        for page, new in zip(pages, changed, strict=True)
    )


@pytest.mark.parametrize("tail", ["cut", "garbage"])
def test_a_journal_that_is_not_on_the_disk_yet_changes_nothing(tmp_path, stages, tail):
    """Power is lost before the journal is synced: the ledger itself was not touched."""
    spent, before, _, journal = stages
    noise = random.Random(2)
    for cut in range(0, len(journal), 1021):
        rest = noise.randbytes(len(journal) - cut) if tail == "garbage" else b""
        assert reopened(tmp_path, before, journal[:cut] + rest) == spent


@pytest.mark.parametrize("written", ["from the front", "from the end", "garbage"])
def test_an_entry_that_is_not_whole_on_the_disk_yet_is_undone(tmp_path, stages, written):
    """Power is lost while the ledger is written. What was released before is all there."""
    spent, before, after, journal = stages
    assert before != after
    old = before + bytes(len(after) - len(before))
    for cut in range(0, len(after) + 1, 1021):
        torn = {
            "from the front": after[:cut] + before[cut:],
            "from the end": old[:cut] + after[cut:],
            "garbage": after[:cut] + garbage_where_written(before, after)[cut:],
        }
        assert reopened(tmp_path, torn[written], journal) == spent


def test_without_its_journal_a_torn_ledger_is_refused_or_holds_no_less(tmp_path, stages):
    """As when it was renamed after a crash, and the journal was left behind."""
    spent, before, after, _ = stages
    assert reopened(tmp_path, after, None) == spent + 1  # the entry is there once the journal is gone
    opened = 0
    for cut in range(0, len(after) + 1, 1021):
        for torn in (after[:cut] + before[cut:], before[:cut] + after[cut:]):
            with suppress(LedgerError):
                assert reopened(tmp_path, torn, None) >= spent
                opened += 1
    assert opened > 0
