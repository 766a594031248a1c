"""What a tracker has written, byte by byte, on a machine whose names are known."""

import getpass
import os
import platform
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HOST, USER, VALUE, WORD = "fake-host-xyzzy", "fake-user-plugh", "env-value-frobozz", "word-on-the-console"


def pretend(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Host, user, environment and program have names that can be found again."""
    monkeypatch.setattr(socket, "gethostname", lambda: HOST)
    monkeypatch.setattr(platform, "node", lambda: HOST)
    monkeypatch.setattr(getpass, "getuser", lambda: USER)
    for name in ("USER", "LOGNAME", "USERNAME", "LNAME"):
        monkeypatch.setenv(name, USER)
    monkeypatch.setenv("HOSTNAME", HOST)
    monkeypatch.setenv("SECRET", VALUE)
    monkeypatch.setattr(sys, "argv", ["program-quux", "argument-quux"])
    monkeypatch.chdir(folder)


def told_of_this_machine(folder: Path) -> list[str]:
    """Names, paths and texts of this machine that stand in a file's content or name below `folder`."""
    wanted = [HOST, USER, VALUE, WORD, "quux", str(folder), str(Path.home()), sys.prefix, os.getcwd()]
    wanted += [name for name in (os.uname().nodename, str(Path(__file__).parents[1])) if len(name) > 5]
    found = []
    for path, content in _files(folder):
        name = str(path.relative_to(folder)).encode()
        found += [
            f"{word} in {path.name}" for word in wanted if len(word) > 1 and word.encode() in content + name
        ]
    return found


def _files(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            yield path, os.readlink(path).encode()
        elif path.is_file():
            yield path, path.read_bytes()
