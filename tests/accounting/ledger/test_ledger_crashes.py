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

import pytest

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.errors import LedgerError
from fl_dp.records import total_steps

MECHANISM = (0.1, 1.0)
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["__main__", __name__])


class Endless(Budget):
    """A budget without an end, so that the time goes by where the file is written."""

    def steps_that_fit(self, sample_rate, noise_multiplier, planned, spent):
        return planned


BUDGET = Endless(1.0, 1e-5, "rdp")


def begin(path):
    with Ledger.open(path) as ledger:
        ledger.register("digits", "f1", 1000)
    return path


def take_rounds(path, run, replies, rounds=None, checkpoint_pages=1000):
    """Reply b"." to each round after its commit; without an end if `rounds` is None."""
    with Ledger.open(path) as ledger:
        ledger._log._connection.execute(f"PRAGMA wal_autocheckpoint = {checkpoint_pages}")
        replies.send_bytes(b"ready")
        for server_round in itertools.count() if rounds is None else range(rounds):
            reservation = ledger.reserve("digits", run, server_round, MECHANISM, 1, BUDGET)
            ledger.commit(reservation)
            replies.send_bytes(b".")


def start(function, *arguments):
    """A client and the pipe of its replies; it is ready."""
    replies, theirs = PROCESSES.Pipe(duplex=False)
    client = PROCESSES.Process(target=function, args=(*arguments, theirs))
    client.start()
    theirs.close()
    assert replies.poll(30)
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


def ended(client):
    client.join(30)
    return client.exitcode


def spent_steps(path):
    """What the ledger says; LedgerError if it cannot be trusted."""
    with Ledger.open(path) as ledger:
        return total_steps(ledger.spent("digits"))


@pytest.mark.slow
def test_a_client_that_is_killed_at_any_of_200_moments_has_spent_what_it_released(tmp_path):
    moments = random.Random(20240601)
    for ledger in range(10):
        path, released = begin(tmp_path / f"{ledger}.sqlite"), 0
        for kill in range(20):
            client, replies = start(take_rounds, path, f"run {kill}")
            for _ in range(moments.randrange(3)):
                released += replies.recv_bytes() == b"."
            time.sleep(moments.uniform(0.0, 0.01))
            os.kill(client.pid, signal.SIGKILL)
            assert ended(client) == -signal.SIGKILL
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
        ledger.commit(ledger.reserve("digits", "run", 1, MECHANISM, 1, BUDGET))
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
            ledger.commit(ledger.reserve("digits", "run", 1, MECHANISM, 1, BUDGET))
        finally:
            sys.settrace(before)
    return counter.count


@pytest.mark.slow
def test_a_client_that_is_killed_at_any_line_of_a_round_has_spent_what_it_released(tmp_path):
    begin(tmp_path / "begun.sqlite")
    shutil.copy(tmp_path / "begun.sqlite", tmp_path / "counted.sqlite")
    lines = lines_of_a_round(tmp_path / "counted.sqlite")
    outcomes = set()
    for number in range(1, lines + 1):
        path = shutil.copy(tmp_path / "begun.sqlite", tmp_path / f"{number}.sqlite")
        client, replies = start(kill_at_line, path, number)
        assert ended(client) == -signal.SIGKILL
        assert received(replies) == 0
        outcomes.add(spent_steps(path))
    assert outcomes == {0, 1}  # before the reservation was on disk, and after


@pytest.mark.slow
@pytest.mark.parametrize("order", list(itertools.permutations(("", "-wal", "-shm"))), ids="".join)
def test_files_copied_while_they_are_written_hold_all_that_was_released_or_are_refused(tmp_path, order):
    """A stand-in for a loss of power. Checkpoints are made often, so that all files change."""
    path = begin(tmp_path / "ledger.sqlite")
    client, replies = start(take_often_checkpointed_rounds, path)
    moments, released, opened = random.Random(1), 0, 0
    for number in range(25):
        time.sleep(moments.uniform(0.0, 0.01))
        released += received(replies)
        copy = tmp_path / f"copy{number}"
        for suffix in order:
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
        try:
            spent = spent_steps(copy)
        except LedgerError:  # refused: the files are of different moments
            continue
        assert spent >= released
        opened += 1
    client.kill()
    ended(client)
    assert released > 0
    assert opened > 0


def take_often_checkpointed_rounds(path, replies):
    take_rounds(path, "run", replies, checkpoint_pages=5)


def commit_rounds(path, rounds):
    """Take rounds and keep the ledger open; the size of the write-ahead log after each."""
    ledger = Ledger.open(path)
    sizes = []
    for server_round in range(rounds):
        ledger.commit(ledger.reserve("digits", "run", server_round, MECHANISM, 1, BUDGET))
        sizes.append(os.path.getsize(f"{path}-wal"))
    return ledger, sizes


@pytest.mark.parametrize("tail", ["cut", "garbage"])
def test_what_was_on_its_way_to_the_disk_may_be_lost_and_nothing_else(tmp_path, tail):
    path = begin(tmp_path / "ledger.sqlite")
    ledger, sizes = commit_rounds(path, 4)
    wal = (tmp_path / "ledger.sqlite-wal").read_bytes()
    copy, noise = tmp_path / "copy", random.Random(2)
    for cut in range(0, len(wal), 509):
        shutil.copy(path, copy)
        rest = noise.randbytes(len(wal) - cut) if tail == "garbage" else b""
        (tmp_path / "copy-wal").write_bytes(wal[:cut] + rest)
        (tmp_path / "copy-shm").unlink(missing_ok=True)
        assert sum(size <= cut for size in sizes) <= spent_steps(copy) <= 4
    ledger.close()


def test_commits_are_on_disk_before_they_return(tmp_path):
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        assert ledger._log._pragma("journal_mode") == "wal"
        assert ledger._log._pragma("synchronous") == 2  # FULL
        assert ledger._log._pragma("fullfsync") == 1
