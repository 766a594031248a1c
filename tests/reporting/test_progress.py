"""Bars on a terminal, which are erased for other lines; in a pipe a line for what is new."""

import io

import pytest
from rich.console import Console

from fl_dp.reporting.progress import ProgressDisplay
from fl_dp.reporting.run_progress import RunProgress

RUN = RunProgress(rounds=10, budget=3.0)


def console(terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=120)


def written(to: Console) -> str:
    assert isinstance(to.file, io.StringIO)
    return to.file.getvalue()


def test_a_terminal_shows_the_round_and_erases_it_for_other_lines() -> None:
    terminal = console(terminal=True)
    display = ProgressDisplay(terminal)
    display.show(RUN.in_round(3, 7))
    with display.aside():
        before = written(terminal)
        assert "0 of 7 clients have answered" in before
        assert before.endswith("\x1b[2K")  # erased
        terminal.file.write("a line of results\n")
    lines = written(terminal).partition("a line of results\n")[2]
    assert "\x1b[1A" not in lines  # a new drawing begins below: the line of results stays
    assert "0 of 7 clients" in lines
    display.close()
    display.close()
    assert "\x1b[?25h" in written(terminal).rpartition("have answered")[2]  # the cursor is back
    display.show(RUN.in_round(4, 9))
    display.close()
    assert "0 of 9 clients have answered" in written(terminal)


def test_a_line_that_is_there_already_is_not_said_again() -> None:
    pipe = console(terminal=False)
    display = ProgressDisplay(pipe)
    display.known("1 of 2 sites are there")
    display.show(RUN.now("1 of 2 sites are there"))
    display.close()
    assert written(pipe) == ""


def test_a_terminal_that_cannot_move_its_cursor_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    terminal = console(terminal=True)
    display = ProgressDisplay(terminal)
    display.show(RUN.now("checking"))
    display.close()
    assert written(terminal) == "checking\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_is_quiet(terminal: bool) -> None:
    there = console(terminal)
    display = ProgressDisplay(there, quiet=True)
    display.show(RUN.now("checking"))
    with display.aside():
        pass
    display.close()
    assert written(there) == ""


def test_it_is_on_standard_error_beside_the_lines_on_standard_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    display = ProgressDisplay()
    display.show(RUN.now("checking"))
    display.close()
    assert capsys.readouterr() == ("", "checking\n")
