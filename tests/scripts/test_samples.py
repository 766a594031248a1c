"""Samples are never changed, and tell nothing of their machine; tests/test_samples.py reads them."""

import sys
from pathlib import Path

import pytest

from scripts.samples.__main__ import check_tells_nothing, main
from scripts.samples.place import ROOT


def test_samples_that_are_there_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["samples", str(tmp_path)])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "is there, and samples are never changed" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_what_names_a_folder_of_this_machine_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sound").write_bytes(b"runs/one \xff")
    check_tells_nothing(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"\xff" + bytes(ROOT / "fl_dp" / "engine"))
    with pytest.raises(RuntimeError, match=r"model.onnx: holds .*which is of this machine alone"):
        check_tells_nothing(tmp_path)
