"""What a run does, in its folder: there while it goes on, and gone afterwards."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from run_records import record

from fl_dp.config.run import RunConfig
from fl_dp.launch import progress_reporter as module
from fl_dp.launch.progress_reporter import KEPT, ProgressReporter, Say, reporting_progress
from fl_dp.reporting.run_folder import RunFolder


def told(folder: RunFolder) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(folder.progress.read_text())
    return found


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def test_the_file_follows_the_run_and_is_gone_at_its_end(folder):
    said: list[str] = []
    with reporting_progress(said.append, quiet=True) as tell:
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
    assert not list(folder.path.iterdir())
    assert said == ["a line"]


def test_it_is_gone_when_the_run_fails_too(folder):
    def interrupted() -> None:
        with reporting_progress(print, quiet=True) as tell:
            tell.run(RunConfig(), folder)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
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


def test_a_resumed_run_begins_with_the_rounds_that_are_over(folder):
    tell = ProgressReporter(print, quiet=True)
    tell.run(RunConfig(rounds=9), folder, 5)
    assert tell.rounds_over == 5


@pytest.mark.parametrize(
    ("begun_by", "command"), [("run", "fl-dp run --resume"), ("server", "fl-dp server --resume")]
)
def test_who_interrupts_a_run_is_told_how_to_go_on(folder, begun_by, command):
    if begun_by == "run":
        folder.launch.touch()
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        stopped(folder, said.append, rounds=1)
    assert said == [f"stopped after 1 of 4 rounds; go on with: {command} {folder.shown}"]


def test_of_a_run_that_is_over_or_has_not_begun_nothing_is_said(folder):
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt), reporting_progress(said.append, quiet=True):
        raise KeyboardInterrupt
    folder.summary.write_text('{"status": "completed"}')
    with pytest.raises(KeyboardInterrupt):
        stopped(folder, said.append)
    assert said == []


def stopped(folder: RunFolder, say: Say, rounds: int = 0) -> None:
    with reporting_progress(say, quiet=True) as tell:
        tell.run(RunConfig(rounds=4), folder)
        for number in range(rounds):
            tell.round_over(record(number + 1))
        raise KeyboardInterrupt
