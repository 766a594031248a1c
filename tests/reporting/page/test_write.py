"""The file, and the line at the end of a run, whatever goes wrong."""

import errno
import importlib.metadata
import logging

import pytest

from fl_dp.errors import ConfigError
from fl_dp.reporting.page import render
from fl_dp.reporting.page.render import write_page, written_at_the_end

from .conftest import Make


def test_the_line_says_where_it_is(make: Make) -> None:
    folder = make()
    assert written_at_the_end(folder) == f"report in {folder.report}"
    assert folder.report.read_text().endswith("</html>\n")


def test_a_missing_package_is_named_with_what_to_install(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        if name == "matplotlib":
            raise importlib.metadata.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(importlib.metadata, "version", missing)
    folder = make()
    line = written_at_the_end(folder)
    assert "pip install matplotlib, or the extra report of fl_dp's wheel" in line
    assert line.endswith(f"Then run: fl-dp report {folder.path}")
    assert not folder.report.exists()


def test_a_full_disk_is_said_and_leaves_the_old_page(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make()
    folder.report.write_text("old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(render, "write_whole", full)
    assert "No space left on device" in written_at_the_end(folder)
    assert folder.report.read_text() == "old"
    with pytest.raises(ConfigError, match="--out"):
        write_page(folder)


def test_what_nobody_thought_of_ends_no_run(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr(render, "write_whole", broken)
    with caplog.at_level(logging.ERROR, "fl_dp"):
        line = written_at_the_end(make())
    assert line.startswith("no report was written: it could not be made (ZeroDivisionError).")
    assert "a fault of ours" in caplog.text  # the log has the whole of it


@pytest.mark.parametrize("name", ["rounds.jsonl", "summary.json", "statements.json", "config.toml"])
def test_a_damaged_file_is_named(make: Make, name: str) -> None:
    folder = make()
    (folder.path / name).write_text("{\n")
    assert name in written_at_the_end(folder)
