"""Disks that are full or read-only: the round is declined before any data are touched, and nothing breaks."""

import os
import resource
import shutil
import subprocess
import sys
from contextlib import contextmanager

import pytest

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger import database
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.errors import LedgerError
from fl_dp.records import Entry

BUDGET = Budget(epsilon=100.0, delta=1e-5, accountant="rdp")
MECHANISM = (0.001, 50.0)


@contextmanager
def no_byte_can_be_written():
    """In this process: a stand-in for a full disk, with the errors of the system's own calls."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_where_nothing_can_be_written_nothing_is_reserved_or_committed(ledger):
    reservation = ledger.reserve("digits", "run", 1, Entry(*MECHANISM, 3), BUDGET)
    for use in (
        lambda: ledger.reserve("digits", "run", 2, Entry(*MECHANISM, 1), BUDGET),
        lambda: ledger.commit(reservation),
    ):
        with no_byte_can_be_written(), pytest.raises(LedgerError, match="cannot be read or written"):
            use()
        assert ledger.spent("digits") == (reservation.entry,)
    ledger.reserve("digits", "run", 2, Entry(*MECHANISM, 1), BUDGET)  # once there is room again


def test_a_ledger_that_cannot_be_made_is_not_half_made(tmp_path):
    with no_byte_can_be_written(), pytest.raises(LedgerError, match="cannot be created"):
        Ledger.open(tmp_path / "ledger.sqlite")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write where it is forbidden")
def test_a_read_only_ledger_declines(path):
    path.chmod(0o400)
    path.parent.chmod(0o500)
    try:
        with pytest.raises(LedgerError, match="cannot be"), Ledger.open(path) as ledger:
            ledger.reserve("digits", "run", 1, Entry(*MECHANISM, 1), BUDGET)
    finally:
        path.parent.chmod(0o700)


def test_a_ledger_that_another_process_holds_is_waited_for_and_then_declines(path, monkeypatch):
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.05)
    with Ledger.open(path) as ledger, Ledger.open(path) as other:
        with other._log.writing(), pytest.raises(LedgerError, match="Another process has held it"):
            ledger.reserve("digits", "run", 1, Entry(*MECHANISM, 1), BUDGET)
        ledger.reserve("digits", "run", 1, Entry(*MECHANISM, 1), BUDGET)  # once it is free


ON_A_SMALL_DISK = """
import os, sys
from pathlib import Path
from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.errors import LedgerError
from fl_dp.records import Entry, total_steps

ENTRY = Entry(0.001, 50.0, 1)
disk, budget = Path(sys.argv[1]), Budget(100.0, 1e-5, "rdp")
refused = spent = 0
path, ballast = disk / "ledger.sqlite", disk / "ballast"
with Ledger.open(path) as ledger:
    ledger.register("digits", "f1", 1000)
for pages in range(14):  # that are left free, of 4096 bytes
    ballast.unlink(missing_ok=True)
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)) == 4096:
                pass
        except OSError:
            pass
        file.truncate(max(0, file.tell() - 4096 * pages))
    released, reserved = 0, 0
    try:
        with Ledger.open(path) as ledger:
            reservation = ledger.reserve("digits", f"run {pages}", 1, ENTRY, budget)
            reserved = 1
            ledger.commit(reservation)
            released = 1
    except LedgerError:
        refused += 1
    ballast.unlink()
    with Ledger.open(path) as ledger:
        before, spent = spent, total_steps(ledger.spent("digits"))
    assert spent - before >= reserved >= released
print("refused", refused, "of 14")
os.system(f"mount -o remount,ro {disk}")
try:
    with Ledger.open(path) as ledger:
        ledger.reserve("digits", "read-only", 1, ENTRY, budget)
except LedgerError as error:
    print("read-only:", error)
"""


@pytest.mark.slow
def test_a_disk_that_fills_up_at_any_point_costs_at_most_the_round(tmp_path):
    """On a file system of 256 KiB in a mount namespace of its own, which ends with the process."""
    mount = 'mount -t tmpfs -o size=256k none "$0" && exec "$@" "$0"'
    inside = ["unshare", "--mount", "--map-root-user", "sh", "-c", mount, str(tmp_path)]
    if not shutil.which("unshare") or subprocess.run([*inside, "true"], capture_output=True).returncode:
        pytest.skip("no file system may be mounted here")
    result = subprocess.run(
        [*inside, sys.executable, "-c", ON_A_SMALL_DISK], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr
    refused, read_only = result.stdout.splitlines()
    assert 0 < int(refused.split()[1]) < 14
    assert "readonly" in read_only or "unable to open" in read_only
