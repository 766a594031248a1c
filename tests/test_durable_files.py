"""Whole files, and one process at a time."""

import fcntl
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fl_dp import durable_files
from fl_dp.durable_files import (
    NewLines,
    append_text,
    exclusive,
    is_held,
    one_at_a_time,
    open_private,
    private_folder,
    write_whole,
)
from fl_dp.errors import AtWorkError, ConfigError

HOLD = """
import sys, time
from pathlib import Path
from fl_dp.durable_files import exclusive
with exclusive(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before, and longer")
    write_whole(path, lambda file: file.write(b"after"))
    assert path.read_text() == "after"
    assert os.listdir(tmp_path) == ["file"]


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")

    def fail(file: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_whole(path, fail)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["file"]  # on a full disk what it left would be in the way
    (tmp_path / ".file.new").write_text("of a process that was killed")
    write_whole(path, lambda file: file.write(b"x"))
    assert path.read_text() == "x"


def test_text_is_appended_to_a_file_that_lasts_and_is_its_owners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(durable_files, "sync_folder", synced.append)
    for text in ("a\n", "b\n"):
        append_text(tmp_path / "lines", text)
    assert (tmp_path / "lines").read_text() == "a\nb\n"
    assert synced == [tmp_path]  # of a file that was there its folder says nothing new
    assert mode(tmp_path / "lines") == "0o600"


def test_of_a_text_that_cannot_be_appended_nothing_stays(tmp_path: Path) -> None:
    """Half a line would make the next one unreadable."""
    path = tmp_path / "lines"
    append_text(path, "a\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            append_text(path, "longer than that\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    append_text(path, "b\n")
    assert path.read_text() == "a\nb\n"


def test_a_lock_is_held_by_one_process_and_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(AtWorkError, match="another process is at work on this run"), exclusive(path):
            pass
        holder.kill()
    for _ in range(2):
        with exclusive(path):
            pass


def test_others_may_read_a_file_as_far_as_the_umask_lets_them_but_no_secret(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_whole(tmp_path / "file", lambda file: file.write(b"x"))
        write_whole(tmp_path / "secret", lambda file: file.write(b"x"), secret=True)
        os.umask(0)
        write_whole(tmp_path / "open", lambda file: file.write(b"x"))
    finally:
        os.umask(before)
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()}
    assert modes == {"file": "0o644", "secret": "0o600", "open": "0o666"}


def mode(path: Path) -> str:
    return oct(path.stat().st_mode & 0o777)


def test_what_is_private_is_its_owners_even_where_it_was_not_before(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        (tmp_path / "log").write_text("old\n")
        with open_private(tmp_path / "log", append=True) as file:
            file.write(b"new\n")
        assert (tmp_path / "log").read_text() == "old\nnew\n"
        with open_private(tmp_path / "log"):
            assert (mode(tmp_path / "log"), (tmp_path / "log").read_text()) == ("0o600", "")
        assert mode(private_folder(tmp_path / "a" / "b")) == "0o700"
        (tmp_path / "shared").mkdir()
        assert mode(private_folder(tmp_path / "shared")) == "0o777"  # somebody's own choice
        with open_private(Path("/dev/null")) as file:
            file.write(b"x")
        assert mode(Path("/dev/null")) == "0o666"
        (tmp_path / "lock").touch()  # of an older fl_dp: whoever may read it can hold it
        for lock in (tmp_path / "lock", tmp_path / "new lock"):
            with exclusive(lock):
                assert mode(lock) == "0o600"
    finally:
        os.umask(before)


def test_a_lock_is_looked_at_without_being_taken(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    assert not is_held(lock)
    assert not lock.exists()
    with exclusive(lock):
        assert is_held(lock)
    assert not is_held(lock)


def test_a_look_keeps_nobody_from_the_lock(tmp_path: Path) -> None:
    """A shared lock, as a look takes for a moment, is waited for; one that stays is not."""
    lock = tmp_path / "lock"
    lock.touch()
    with lock.open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        threading.Timer(0.03, lambda: fcntl.flock(looking, fcntl.LOCK_UN)).start()
        with exclusive(lock):
            pass
        fcntl.flock(looking, fcntl.LOCK_SH)
        with pytest.raises(AtWorkError, match="end it first"), exclusive(lock):
            pass


@pytest.mark.parametrize("secret", [False, True])
def test_what_others_put_in_the_place_of_an_unfinished_file_is_not_written_to(
    secret: bool, tmp_path: Path
) -> None:
    file, unfinished, theirs = tmp_path / "file", tmp_path / ".file.new", tmp_path / "theirs"
    theirs.write_text("theirs")
    for put in (
        lambda: unfinished.symlink_to(theirs),
        lambda: unfinished.hardlink_to(theirs),
        lambda: os.mkfifo(unfinished),
    ):
        put()
        write_whole(file, lambda opened: opened.write(b"ours"), secret=secret)
        assert theirs.read_text() == "theirs"
        assert file.read_text() == "ours"
        assert not file.is_symlink()


def locked(path: Path) -> None:
    with one_at_a_time(path):
        pass


def locked_once(path: Path) -> None:
    with exclusive(path):
        pass


def opened_anew(path: Path) -> None:
    open_private(path).close()


def opened_to_append(path: Path) -> None:
    open_private(path, append=True).close()


WRITERS = (locked, locked_once, opened_anew, opened_to_append, lambda path: append_text(path, "more"))


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("there", [True, False])
def test_no_link_is_followed_by_what_writes_or_locks(
    write: Callable[[Path], None], there: bool, tmp_path: Path
) -> None:
    theirs, link = tmp_path / "theirs", tmp_path / "link"
    if there:
        theirs.write_text("theirs")
        theirs.chmod(0o644)
    link.symlink_to(theirs)
    with pytest.raises((OSError, ConfigError), match="it is a link, and links are not followed"):
        write(link)
    assert theirs.exists() == there
    if there:
        assert (theirs.read_text(), mode(theirs)) == ("theirs", "0o644")


def test_a_lock_is_a_plain_file_and_keeps_what_is_in_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for lock in (locked, locked_once):
        with pytest.raises(ConfigError, match="it is not a regular file"):
            lock(tmp_path / "pipe")
    (tmp_path / "file").write_text("x")
    locked(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "x"
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with exclusive(tmp_path / "file"):
        assert not is_held(tmp_path / "link")


def test_who_names_a_link_may_mean_it(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with open_private(tmp_path / "link", follow=True) as file:
        file.write(b"x")
    assert (tmp_path / "file").read_text() == "x"


@pytest.mark.parametrize("replaced", [True, False])
def test_lines_come_once_and_whole(tmp_path: Path, replaced: bool) -> None:
    path = tmp_path / "lines"
    lines = NewLines(path)
    assert lines.new() == []
    path.write_bytes(b"1\n\n2")
    assert lines.new() == [b"1", b""]
    assert lines.new() == []
    with path.open("ab") as file:
        file.write(b"nd\n3\n")
    assert lines.new() == [b"2nd", b"3"]
    assert lines.new() == []
    other = tmp_path / "other" if replaced else path
    other.write_bytes(b"anew\n")
    other.replace(path)
    assert lines.new() == [b"anew"]


def test_a_file_that_is_moved_when_it_is_full_loses_no_line(tmp_path: Path) -> None:
    path, older = tmp_path / "lines", tmp_path / "older"
    path.write_bytes(b"before\n")
    lines = NewLines(path, older, from_end=True)
    path.write_bytes(b"before\n1\n")
    path.replace(older)
    assert lines.new() == []
    path.write_bytes(b"2\n")
    assert lines.new() == [b"1", b"2"]
