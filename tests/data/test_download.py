import os
import socket
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from fl_dp.data.download import exclusive, fetch
from fl_dp.errors import DataError


def test_only_one_at_a_time(tmp_path: Path) -> None:
    with exclusive(tmp_path), pytest.raises(Timeout):
        FileLock(tmp_path / ".fl_dp.lock", timeout=0).acquire()
    FileLock(tmp_path / ".fl_dp.lock", timeout=0).acquire()


def test_a_read_only_root_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with exclusive(tmp_path):
        assert list(tmp_path.iterdir()) == []


def test_a_new_root_is_made_or_named(tmp_path: Path) -> None:
    with exclusive(tmp_path / "new" / "root"):
        assert (tmp_path / "new" / "root").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"data-root .*file: cannot be made"):
        exclusive(tmp_path / "file")


def test_a_dead_network_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchvision import datasets

    seen: list[float | None] = []

    def stand_in(root: Path, download: bool) -> None:
        seen.append(socket.getdefaulttimeout())
        raise TimeoutError("timed out")

    monkeypatch.setattr(datasets, "MNIST", stand_in)
    before = socket.getdefaulttimeout()
    with pytest.raises(DataError, match=r"MNIST: not complete .*timed out.*Put torchvision's files"):
        fetch("MNIST", tmp_path)
    assert seen == [60.0]
    assert socket.getdefaulttimeout() == before
