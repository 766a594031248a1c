"""A run is followed from its files: before its first round, during it, at its end, and when it has died."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from launch.commands import wait_for
from run_records import record

from fl_dp.config.run import RunConfig
from fl_dp.durable_files import exclusive
from fl_dp.errors import ConfigError, LaunchError
from fl_dp.launch import following
from fl_dp.launch.exit_codes import ExitCode
from fl_dp.launch.following import check_watchable, follow, look_once
from fl_dp.launch.launcher import write_config
from fl_dp.launch.progress_reporter import ProgressReporter
from fl_dp.reporting.reports import INTERRUPTED, ClientBudget, RunStatus, Summary
from fl_dp.reporting.run_folder import RunFolder, claim_folder
from fl_dp.reporting.run_results import RunResults, append_line

LOOKS = pytest.mark.parametrize("look", [look_once, follow])


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(following, "_SETTLE_SECONDS", 0.02)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.chdir(tmp_path)
    folder = claim_folder(tmp_path / "run")
    write_config(RunConfig(rounds=4), folder)
    return folder


def end(folder: RunFolder, status: RunStatus, reason: str = "", name: str = "0") -> None:
    one = ClientBudget(3.0, "pld", 3.0, 1e-5, 10, 2, 0, "trained", reason)
    RunResults(folder.path, resumed=True).write_summary(
        Summary(status, True, 2, 3.0, 1e-5, None, 0.9, 0.5, 9.0, {name: one}, reason)
    )


@contextmanager
def running(folder: RunFolder, lock: str = "lock") -> Iterator[ProgressReporter]:
    """Another process is at work on the run; what it tells of that."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom fl_dp.durable_files import exclusive\n"
        "with exclusive(Path(sys.argv[1])):\n    print('held', flush=True)\n    sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(getattr(folder, lock))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        try:
            tell = ProgressReporter(print, quiet=True)
            tell.run(RunConfig(rounds=4), folder)
            yield tell
        finally:
            process.kill()


@pytest.fixture
def said() -> list[str]:
    return []


def test_before_the_first_round_it_says_what_is_done(folder, said):
    with running(folder) as tell:
        tell.doing("1 of 2 clients are there\x1b[2J")
        assert look_once(folder, said.append) == ExitCode.TRAINED
    assert said == ["0 of 4 rounds done; now: 1 of 2 clients are there\\u001b[2J"]


def test_within_a_round_it_counts_answers(folder, said):
    append_line(folder.rounds, record(1))
    with running(folder, "server_lock") as tell:  # as where Flower runs the server
        tell.asked(2, 5)
        look_once(folder, said.append)
        assert said[0].splitlines()[-1].startswith("round 1/4  eps 2.00 of 3.00")
        assert said[1] == "1 of 4 rounds done; now: round 2/4: 0 of 5 clients have answered"
        tell.asked(1, 5)  # of a round that is over
        look_once(folder, said.append)
        assert said[-1] == "1 of 4 rounds done; now: between two rounds"


@pytest.mark.parametrize("text", ["", "[]", '{"doing": 1}', '{"server_round": 1, "asked": 5}', "[" * 9999])
def test_a_state_that_cannot_be_read_is_no_state(folder, said, text):
    with running(folder):
        folder.progress.write_text(text)
        look_once(folder, said.append)
    assert said == ["0 of 4 rounds done; now: between two rounds"]


@pytest.mark.parametrize(
    ("status", "code"),
    [("completed", ExitCode.TRAINED), ("budget-exhausted", ExitCode.BUDGET_EXHAUSTED)],
)
@LOOKS
def test_a_run_that_is_over_gives_its_exit_code_and_nothing_is_written(
    folder, said, status, code, look, monkeypatch
):
    drawn = []
    monkeypatch.setattr("fl_dp.reporting.page.write.written_at_the_end", drawn.append)
    append_line(folder.rounds, record(1))
    end(folder, status)
    before = {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")}
    assert look(folder, said.append) == code
    assert "results in run" in said
    assert {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")} == before
    assert not drawn


@LOOKS
def test_a_run_that_failed_says_why_and_moves_no_cursor(folder, look):
    end(folder, "failed", "client \x1b[2J was ill")
    with pytest.raises(LaunchError, match=r"client \\u001b\[2J was ill\. Log:"):
        look(folder, print)


@LOOKS
def test_an_interrupted_run_is_no_error_and_its_page_is_named(folder, said, look):
    end(folder, "failed", INTERRUPTED)
    for last in ("to write a report: fl-dp report run", "report in run/report.html"):
        assert look(folder, said.append) == ExitCode.INTERRUPTED
        assert said.pop().splitlines() == [last]
        assert said.pop().splitlines() == [
            "stopped after 2 of 4 rounds; clients have paid for what they began",
            "to see what was paid: fl-dp ledger show, at each site",
            "to resume: fl-dp server --resume run",
        ]
        folder.report.touch()


def test_names_of_clients_move_no_cursor_in_the_table_at_the_end(folder, capsys):
    end(folder, "completed", name="\x1b[2Jx")
    look_once(folder, print)
    out = capsys.readouterr().out
    assert r"\u001b[2Jx" in out
    assert "\x1b" not in out


@LOOKS
def test_a_run_whose_server_has_died_says_how_to_go_on(folder, look):
    append_line(folder.rounds, record(1))
    with folder.rounds.open("a") as file:
        file.write('{"round": 2, "clie')
    with pytest.raises(LaunchError, match=r"after 1 of 4 rounds\. Resume it with: fl-dp server --resume run"):
        look(folder, print)
    folder.launch.touch()
    with pytest.raises(LaunchError, match=r"Resume it with: fl-dp run --resume run"):
        look(folder, print)


def test_a_failed_run_that_goes_on_again_is_not_over(folder):
    end(folder, "failed", INTERRUPTED)
    with running(folder):
        assert look_once(folder, print) == ExitCode.TRAINED


def test_a_run_is_followed_to_its_end(folder, said):
    codes = []
    watcher = threading.Thread(target=lambda: codes.append(follow(folder, said.append)))
    with exclusive(folder.lock):
        watcher.start()
        for number in range(1, 5):
            append_line(folder.rounds, record(number))
            wait_for(lambda start=f"round {number}/4": any(start in line for line in said))
        end(folder, "completed")
        watcher.join(300)
    assert codes == [ExitCode.TRAINED]
    assert said[-1] == "results in run"


def test_many_rounds_before_are_counted(folder, said):
    for number in range(1, 15):
        append_line(folder.rounds, record(number))
    end(folder, "completed")
    look_once(folder, said.append)
    first, means, *_ = said[0].splitlines()
    assert first == "... 4 earlier rounds"
    assert means.startswith("eps: ")
    assert next(line for line in said[0].splitlines() if line.startswith("round")).startswith("round 5/")


def test_a_config_that_is_being_written_is_waited_for(folder, said):
    folder.config.write_text('rounds = 4\nepsilon = "')
    with running(folder):
        look_once(folder, said.append)
    assert said == ["0 of 0 rounds done; now: between two rounds"]


def test_a_folder_without_a_run_is_refused_with_what_to_do(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    for place, words in (
        ("nowhere", r"nowhere: no such folder; name the folder of a run"),
        (".", r"it has no config\.toml; the newest run below it is run\."),
        ("empty", r"empty: holds no run, as it has no config\.toml\.$"),
    ):
        with pytest.raises(ConfigError, match=words):
            check_watchable(RunFolder(tmp_path / place))
    check_watchable(folder)
