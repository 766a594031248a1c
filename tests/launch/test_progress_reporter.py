"""What is said of a run while it goes on, and when it is interrupted."""

from collections.abc import Callable
from pathlib import Path

import pytest
from run_records import record, summary

from fl_dp.config.run import RunConfig
from fl_dp.launch.progress_reporter import ProgressReporter, reporting_progress
from fl_dp.launch.resumption import Launch
from fl_dp.reporting.reports import INTERRUPTED
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.run_results import RunResults


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def interrupted(
    work: Callable[[ProgressReporter], None], *, quiet: bool = True, lasting: bool = True
) -> list[str]:
    """What is said of a run that does this, and then gets a Ctrl-C."""
    said: list[str] = []

    def run() -> None:
        with reporting_progress(said.append, quiet=quiet, lasting=lasting) as tell:
            work(tell)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    return said


def test_the_lines_of_rounds_are_said_and_of_a_run_that_is_over_nothing_more(folder):
    def work(tell):
        tell.run(RunConfig(rounds=4), folder)
        tell.asked(1, 3)
        tell.answered(3)
        tell.round_over(record(1))
        tell.say("a line")
        RunResults(folder.path).write_summary(summary())

    line, *others = interrupted(work)
    assert line.splitlines()[-1].startswith("round 1/4  eps 2.00 of 3.00")
    assert others == ["a line"]


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


def test_what_was_in_memory_is_begun_anew_from_the_same_ledger(folder):
    Launch("ray", folder.ledgers, "").write(folder)
    _, words = interrupted(lambda tell: tell.run(RunConfig(rounds=9), folder) or tell.say(""), lasting=False)
    assert words.startswith("stopped after 0 of 9 rounds")
    assert words.endswith(f'the same call with ledger="{folder.ledgers}"')
    assert "--resume" not in words


def test_the_line_of_a_round_says_the_time_left(folder):
    said: list[str] = []
    with reporting_progress(said.append) as tell:
        tell.run(RunConfig(rounds=4), folder)
        for server_round, seconds in enumerate((40.0, 4.0, 50.0, 50.0), 1):
            tell.round_over(record(server_round, seconds=seconds))
    ends = [line.splitlines()[-1].partition(" s  ")[2] for line in said]
    assert ends == ["about 2 min left", "", "about 40 s left", ""]  # nothing of seconds, and of no round


def test_the_page_of_an_interrupted_run_is_drawn_and_named(folder, monkeypatch):
    monkeypatch.chdir(folder.path.parent)
    folder.config.write_text("rounds = 9\n")
    nothing = dict.fromkeys(("epsilon", "delta", "federation", "accuracy"))
    ended = summary({}, status="failed", rounds=0, reason=INTERRUPTED, metrics={}, **nothing)

    def work(tell):
        tell.run(RunConfig(rounds=9), folder)
        RunResults(folder.path, resumed=True).write_summary(ended)

    assert len(interrupted(work)) == 1  # a quiet one draws none
    assert not folder.report.exists()
    assert interrupted(work, quiet=False)[1:] == [f"report in {folder.shown}/report.html"]
    assert folder.report.exists()
