"""What a run does, in its folder: there while it goes on, and gone afterwards."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_records import record

from fl_dp.config.run import RunConfig
from fl_dp.launch import progress_reporter as module
from fl_dp.launch.progress_reporter import KEPT, ProgressReporter, reporting_progress
from fl_dp.reporting.reports import INTERRUPTED, Summary
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.run_results import RunResults


def told(folder: RunFolder) -> dict[str, Any]:
    return json.loads(folder.progress.read_text())


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def interrupted(work: Callable[[ProgressReporter], None], *, quiet: bool = True) -> list[str]:
    """What is said of a run that does this, and then gets a Ctrl-C."""
    said: list[str] = []

    def run() -> None:
        with reporting_progress(said.append, quiet=quiet) as tell:
            work(tell)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    return said


def test_the_file_follows_the_run_and_is_gone_at_its_end(folder):
    def work(tell):
        tell.doing("checking")
        assert not folder.progress.exists()
        tell.run(RunConfig(rounds=4), folder)
        assert told(folder)["doing"] == "checking"
        tell.asked(1, 2)
        tell.asked(1, 1)
        tell.answered(3)
        assert {key: told(folder)[key] for key in KEPT[:4]} == {
            "doing": "", "server_round": 1, "asked": 3, "answered": 3,
        }  # fmt: skip
        tell.round_over(record(1))
        assert told(folder)["server_round"] == 0
        tell.say("a line")
        folder.summary.write_text('{"status": "completed"}')  # of a run that is over nothing more is said

    line, *others = interrupted(work)
    assert line.splitlines()[-1].startswith("round 1/4  eps 2.00 of 3.00")
    assert others == ["a line"]
    assert not folder.progress.exists()


def test_it_is_not_written_for_every_answer(folder, monkeypatch):
    now = 0.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    tell = ProgressReporter(print, quiet=True)
    tell.run(RunConfig(), folder)
    tell.asked(1, 9)
    now += 0.1
    tell.answered(1)
    assert told(folder)["answered"] == 0
    now += module.WRITE_SECONDS
    tell.answered(1)
    assert told(folder)["answered"] == 2


def test_no_run_ends_because_it_cannot_be_written(folder, caplog):
    folder.progress.with_name(f".{folder.progress.name}.new").mkdir()
    tell = ProgressReporter(print, quiet=True)
    with caplog.at_level(logging.WARNING, "fl_dp"):
        tell.run(RunConfig(), folder)
        tell.doing("starting")
    assert "progress.json cannot be written: Is a directory" in caplog.text
    tell.end()


@pytest.mark.parametrize("command", ["fl-dp run --resume", "fl-dp server --resume"])
def test_who_interrupts_a_run_is_told_how_to_go_on(folder, command):
    if "run" in command.split():
        folder.launch.touch()

    def work(tell):
        tell.run(RunConfig(rounds=9), folder, 5)  # resumed after five
        tell.round_over(record(6))

    here = "run" in command.split()
    where = f"fl-dp ledger show {folder.shown}" if here else "fl-dp ledger show, at each site"
    _, words = interrupted(work)
    assert words.splitlines() == [
        "stopped after 6 of 9 rounds; clients have paid for what they began",
        f"to see what was paid: {where}",
        f"to resume: {command} {folder.shown}",
    ]
    assert interrupted(lambda tell: None) == []  # of a run that has not begun


def test_the_page_of_an_interrupted_run_is_drawn_and_named(folder, monkeypatch):
    monkeypatch.chdir(folder.path.parent)
    folder.config.write_text("rounds = 9\n")
    summary = Summary("failed", True, 0, None, None, None, None, None, 1.0, {}, INTERRUPTED)

    def work(tell):
        tell.run(RunConfig(rounds=9), folder)
        RunResults(folder.path, resumed=True).write_summary(summary)

    assert len(interrupted(work)) == 1  # a quiet one draws none
    assert not folder.report.exists()
    assert interrupted(work, quiet=False)[1:] == [f"report in {folder.shown}/report.html"]
    assert folder.report.exists()
