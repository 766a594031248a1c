"""One ledger, one name: others are refused, or lead to the same file and journal."""

import os
import shutil
import subprocess
import sys

import pytest

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger import one_name
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.errors import LedgerError
from fl_dp.records import Entry

BUDGET = Budget(epsilon=100.0, delta=1e-5, accountant="rdp")


def reserve(ledger, server_round):
    return ledger.reserve("digits", "run", server_round, Entry(0.1, 1.0, 1), BUDGET)


def test_a_ledger_with_two_names_is_refused_by_both(path, tmp_path):
    os.link(path, tmp_path / "other")
    for name in (path, tmp_path / "other"):
        for opens in (Ledger.open, Ledger.open_existing):
            with pytest.raises(LedgerError, match=rf"{name}: the ledger has 2 names .*find DIR -samefile"):
                opens(name)
    (tmp_path / "other").unlink()
    Ledger.open(path).close()


def test_a_ledger_that_is_named_twice_moved_or_replaced_while_it_is_open_is_not_written(path, tmp_path):
    with Ledger.open(path) as ledger:
        os.link(path, tmp_path / "other")
        with pytest.raises(LedgerError, match="2 names"):
            reserve(ledger, 1)
        (tmp_path / "other").unlink()
        reserve(ledger, 1)
        path.rename(tmp_path / "elsewhere")
        with pytest.raises(LedgerError, match="cannot be found"):
            reserve(ledger, 2)
        shutil.copy(tmp_path / "elsewhere", path)
        with pytest.raises(LedgerError, match="is not the ledger file that was opened"):
            reserve(ledger, 2)


@pytest.mark.parametrize("target", ["unmounted/ledger.sqlite", "link"], ids=["nowhere", "itself"])
def test_a_link_that_leads_nowhere_begins_no_ledger(tmp_path, target):
    (tmp_path / "link").symlink_to(tmp_path / target)
    with pytest.raises(LedgerError, match=r"link: a link to .* where there is no ledger"):
        Ledger.open(tmp_path / "link")
    with pytest.raises(LedgerError, match="cannot be created"):
        Ledger.open(tmp_path / "link" / "ledger.sqlite")
    assert [file.name for file in tmp_path.iterdir()] == ["link"]


def test_a_name_that_a_killed_maker_left_is_removed_and_anothers_unfinished_file_is_not(path, tmp_path):
    leftover = tmp_path / f"{one_name.temporary_prefix(path)}x1y2z3_a"
    os.link(path, leftover)
    Ledger.open(path).close()
    assert [file.name for file in tmp_path.iterdir()] == ["ledger.sqlite"]
    leftover.write_bytes(b"")
    os.link(path, tmp_path / "other")
    with pytest.raises(LedgerError, match="2 names"):
        Ledger.open(path)
    assert leftover.exists()


def test_a_file_on_another_device_than_its_folder_is_refused(path, monkeypatch):
    """As a container sees it, on a system that does not list what is mounted."""
    monkeypatch.setattr(one_name, "_MOUNTS", path.parent / "absent")
    monkeypatch.setattr(os.path, "ismount", lambda name: name == path)
    with pytest.raises(LedgerError, match="is mounted without its folder"):
        Ledger.open(path)


def test_the_list_of_mounts_is_read_with_its_escapes(tmp_path, monkeypatch):
    names = [rb"/a\040b", rb"/back\134slash", "/ü".encode(), b"/"]
    lines = [b"36 35 98:0 /root %s rw shared:1 - ext4 /dev/x rw\n" % name for name in names]
    (tmp_path / "mountinfo").write_bytes(b"".join(lines))
    monkeypatch.setattr(one_name, "_MOUNTS", tmp_path / "mountinfo")
    assert one_name._mount_points() == {"/a b", "/back\\slash", "/ü", "/"}


MOUNTED = """
import sys
from pathlib import Path
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.errors import LedgerError

try:
    Ledger.open(Path(sys.argv[1]) / "inside" / "ledger file")
except LedgerError as error:
    print(error)
Ledger.open(Path(sys.argv[1]) / "ledger.sqlite").close()
"""


def test_a_single_file_that_is_mounted_is_refused(path, tmp_path):
    """Mounted in a namespace of its own, which ends with the process."""
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "ledger file").touch()
    mount = 'mount --bind "$0/ledger.sqlite" "$0/inside/ledger file" && exec "$@" "$0"'
    inside = ["unshare", "--mount", "--map-root-user", "sh", "-c", mount, str(tmp_path)]
    if not shutil.which("unshare") or subprocess.run([*inside, "true"], capture_output=True).returncode:
        pytest.skip("no file may be mounted here")
    result = subprocess.run(
        [*inside, sys.executable, "-c", MOUNTED], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr
    assert "ledger file: this file is mounted without its folder" in result.stdout
    assert "Mount its folder instead" in result.stdout
