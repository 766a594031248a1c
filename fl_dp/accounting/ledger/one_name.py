"""A ledger has one name, because SQLite looks for a file's journal by the file's name.

The journal undoes a transaction that a crash cut short. Opened under another name, the file would show such a
transaction half done. Later, under the first name, SQLite would find the journal again and undo what was
entered under the other name.
"""

import os
from pathlib import Path

from fl_dp.errors import LedgerError

FileId = tuple[int, int]  # device and inode

_MOUNTS = Path("/proc/self/mountinfo")  # on Linux
_MOUNT_POINT = 4  # which word of a line there


def real_path(path: Path) -> Path:
    """`path` with all symbolic links followed, so that they all lead to one journal.

    LedgerError for a link that leads nowhere: perhaps the disk with the ledger is just not mounted yet.
    """
    real = Path(os.path.realpath(path))
    if path.is_symlink() and not real.exists():
        raise LedgerError(
            f"{path}: a link to {real}, where there is no ledger. Mount its disk or restore the file; to "
            "begin a new ledger, remove the link."
        )
    return real


def refuse_mount_point(path: Path) -> None:
    """LedgerError if the file itself, not its folder, is mounted: its journal would stay on one side."""
    if os.path.ismount(path) or str(path) in _mount_points():
        raise LedgerError(
            f"{path}: this file is mounted without its folder. After a crash the other side of the mount "
            "would lack the journal beside the file. Mount its folder instead."
        )


def sole_name(path: Path) -> FileId:
    """The file that has the name `path`; LedgerError if it also has other names (hard links)."""
    found = path.stat()
    if found.st_nlink > 1:
        raise LedgerError(
            f"{path}: the ledger has {found.st_nlink} names (hard links). After a crash they would not agree "
            "on its last entries. Keep the name that clients use, and remove the others: "
            f'"find DIR -samefile {path}" lists those below DIR.'
        )
    return found.st_dev, found.st_ino


def remove_leftovers(path: Path) -> None:
    """Remove the names under which the file `path` was created; see `temporary_prefix`.

    Its creator removes its own as well, but another process may be faster, or the creator may be killed.
    Nothing is ever entered under such a name, so no journal can belong to it.
    """
    prefix = temporary_prefix(path)
    for other in path.parent.iterdir():
        if other.name.startswith(prefix) and _is_same_file(other, path):
            other.unlink(missing_ok=True)


def temporary_prefix(path: Path) -> str:
    """The prefix of the names under which the file `path` is created, before it gets its own."""
    return f".{path.name}-"


def _is_same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except FileNotFoundError:  # its creator has just removed it
        return False


def _mount_points() -> set[str]:
    """All mount points; empty if the system does not tell. Spaces and the like are octal there."""
    if not _MOUNTS.exists():
        return set()
    words = [line.split()[_MOUNT_POINT] for line in os.fsdecode(_MOUNTS.read_bytes()).splitlines()]
    return {os.fsdecode(os.fsencode(word).decode("unicode_escape").encode("latin-1")) for word in words}
