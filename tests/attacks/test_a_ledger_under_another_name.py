"""A ledger that is opened under another name after a crash has forgotten what it paid for.

The ledger has a second name, a hard link, from a backup tool or an operator. A client pays for 16 steps and
is killed; the next client opens the second name. If the last entries were in a file beside the first name,
the server gets 16 steps for nothing; if a journal is left there, opening the first name again would undo what
was entered under the second.

Now a ledger with two names is refused by both. With one left, whichever, it holds at least all that was paid.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.errors import LedgerError
from fl_dp.records import total_steps

PAID = 16
CLIENT = f"""
import os, signal, sqlite3, sys
from pathlib import Path
from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.records import Entry

ledger = Ledger.open(Path(sys.argv[1]))
ledger.register("digits", "fingerprint", 1000)
ledger.reserve("digits", "run", 1, Entry(0.1, 1.0, {PAID}), Budget(100.0, 1e-5, "rdp"))
if "amid" in sys.argv:  # in the middle of the next entry: a part of it is in the file already
    connection = sqlite3.connect(sys.argv[1], isolation_level=None)
    connection.executescript("PRAGMA cache_spill = ON; PRAGMA cache_size = 1; BEGIN")
    for number in range(3, 200):
        connection.execute("INSERT INTO events VALUES (?, ?, '')", (number, "x" * 500))
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed_client(folder: Path, *words: str) -> tuple[Path, Path]:
    """The two names of a ledger whose client paid for 16 steps and was killed."""
    first, second = folder / "ledger.sqlite", folder / "second-name.sqlite"
    done = subprocess.run([sys.executable, "-c", CLIENT, str(first), *words], check=False)
    assert done.returncode == -signal.SIGKILL
    os.link(first, second)
    return first, second


def spent(path: Path) -> int:
    with Ledger.open_existing(path) as ledger:
        return total_steps(ledger.spent("digits"))


def test_under_a_second_name_nothing_that_was_paid_for_is_forgotten(tmp_path: Path) -> None:
    first, second = killed_client(tmp_path)
    for name in (first, second):
        with pytest.raises(LedgerError, match="2 names"):
            spent(name)
    first.unlink()
    assert spent(second) == PAID


def test_a_journal_beside_the_first_name_undoes_nothing_that_was_entered_under_the_second(
    tmp_path: Path,
) -> None:
    first, second = killed_client(tmp_path, "amid")
    assert (tmp_path / "ledger.sqlite-journal").stat().st_size > 0
    with pytest.raises(LedgerError, match="2 names"):
        spent(second)  # so that nothing is entered there
    second.unlink()
    assert spent(first) == PAID
    assert not (tmp_path / "ledger.sqlite-journal").exists()


def test_a_ledger_that_was_torn_and_lost_its_journal_is_not_believed(tmp_path: Path) -> None:
    first, second = killed_client(tmp_path, "amid")
    first.unlink()
    with pytest.raises(LedgerError, match=r"edited or removed|malformed"):
        spent(second)


def test_a_symbolic_link_is_no_second_name(tmp_path: Path) -> None:
    first, second = killed_client(tmp_path, "amid")
    second.unlink()
    second.symlink_to(first)
    assert spent(second) == PAID
