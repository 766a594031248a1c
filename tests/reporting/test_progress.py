"""The line of the current round: on a terminal only, and gone when the round is over."""

import io

from rich.console import Console

from fl_dp.reporting.progress import RoundBar


def console(terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=120)


def written(to: Console) -> str:
    assert isinstance(to.file, io.StringIO)
    return to.file.getvalue()


def test_a_terminal_shows_clients_and_speed_and_then_a_new_round() -> None:
    terminal = console(terminal=True)
    bar = RoundBar(terminal)
    bar.show(3, 4, 10, 1234.0)
    bar.clear()
    assert "round 3" in written(terminal)
    assert "4/10" in written(terminal)
    assert "1,234 records/s" in written(terminal)
    assert written(terminal).endswith("\x1b[2K")  # the line is erased
    bar.show(4, 1, 5, 10.0)
    bar.show(4, 5, 5, 10.0)
    bar.clear()
    bar.clear()
    assert "round 4" in written(terminal)
    assert "5/5" in written(terminal)


def test_a_pipe_shows_nothing() -> None:
    pipe = console(terminal=False)
    bar = RoundBar(pipe)
    bar.show(1, 1, 2, 1.0)
    bar.clear()
    assert written(pipe) == ""


def test_it_is_on_standard_error_beside_the_lines_on_standard_output() -> None:
    assert RoundBar()._progress.console.stderr
