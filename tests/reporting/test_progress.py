"""Bars on a terminal, which are erased for other lines; in a pipe a line for what is new."""

import dataclasses
import io
import math
import threading
import time
from typing import Any

import pytest
from rich.console import Console
from run_records import client, record

from fl_dp.reporting import progress as module
from fl_dp.reporting.progress import (
    AGAIN_SECONDS,
    MOST_CLIENTS,
    ProgressDisplay,
    ProgressLines,
    RunProgress,
    bars,
    in_words,
    rendered,
    seconds_left,
)
from fl_dp.reporting.reports import RoundReport

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


@pytest.mark.parametrize(("terminal", "expected"), [(True, ""), (False, "  about 3 min left")])
def test_the_time_left_is_in_a_line_only_where_no_bar_shows_it(terminal: bool, expected: str) -> None:
    display = ProgressDisplay(console(terminal=terminal))
    display.show(dataclasses.replace(RUN, over=4, seconds=(30.0,)))
    assert display.left() == expected
    display.close()


def test_a_line_that_is_there_already_is_not_said_again() -> None:
    pipe = console(terminal=False)
    display = ProgressDisplay(pipe)
    display.known("1 of 2 sites are connected")
    display.show(RUN.now("1 of 2 sites are connected"))
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


class Clock:
    now = 1e6

    def time(self) -> float:
        return self.now

    monotonic = time


class Pipe(ProgressLines):
    """Without the thread: the test ticks."""

    def __init__(self) -> None:
        self.file = io.StringIO()
        super().__init__(Console(file=self.file))
        self._thread = threading.current_thread()

    @property
    def lines(self) -> list[str]:
        return self.file.getvalue().splitlines()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def test_each_thing_is_said_once_and_nothing_of_a_round_that_has_begun(clock: Clock) -> None:
    pipe = Pipe()
    for words in ("checking", "checking", "starting Ray", "", "checking"):
        pipe.show(RUN.now(words))
    pipe.show(RUN.in_round(1, 50))
    pipe.tick()
    assert pipe.lines == ["checking", "starting Ray"]


def test_numbers_that_change_quickly_are_not_all_said(clock: Clock) -> None:
    pipe = Pipe()
    for here in range(4):
        pipe.show(RUN.now(f"{here} of 9 clients are there"))
    clock.now += 1.5
    pipe.show(RUN.now("5 of 9 clients are there"))
    assert pipe.lines == ["0 of 9 clients are there", "5 of 9 clients are there"]


def test_a_long_calibration_is_no_silence(clock: Clock) -> None:
    pipe = Pipe()
    pipe.show(RUN.now("calibrating the noise"))
    for _ in range(70):
        clock.now += 1
        pipe.tick()
    assert pipe.lines == [
        "calibrating the noise",
        "calibrating the noise (30 s)",
        "calibrating the noise (60 s)",
    ]


def test_of_a_long_round_answers_are_told_now_and_then(clock: Clock) -> None:
    pipe, progress = Pipe(), RUN.in_round(1, 50)
    for answered in range(70):
        pipe.show(RunProgress(rounds=10, server_round=1, asked=50, answered=answered, since=progress.since))
        pipe.tick()
        clock.now += 1
    assert pipe.lines == [
        f"round 1/10: {answered} of 50 clients have answered ({answered} s)" for answered in (30, 60)
    ]


def test_short_rounds_say_nothing_however_many_they_are(clock: Clock) -> None:
    pipe = Pipe()
    for number in range(1, 10):
        pipe.show(RUN.in_round(number, 2))
        clock.now += AGAIN_SECONDS - 1
        pipe.tick()
    assert pipe.lines == []


def test_the_thread_ticks_until_it_is_closed_and_again_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TICK_SECONDS", 0.01)
    ticks: list[threading.Event] = [threading.Event(), threading.Event()]
    lines = ProgressLines(Console(file=io.StringIO()))
    before = set(threading.enumerate())
    for tick in ticks:
        monkeypatch.setattr(lines, "tick", tick.set)
        lines.show(RUN.now("checking"))
        assert tick.wait(10)
        lines.close()
        assert set(threading.enumerate()) <= before


def after(last: RoundReport) -> RunProgress:
    return RunProgress(rounds=8, budget=3.0).after(last)


def drawn(progress: RunProgress, **options: Any) -> str:
    file = io.StringIO()
    Console(file=file, force_terminal=True, width=100, **options).print(rendered(progress, 1.0))
    return file.getvalue()


def test_rounds_the_federations_budget_and_each_of_few_clients() -> None:
    found = bars(after(record(2)), 1.0)
    assert [bar[:3] for bar in found] == [
        ("rounds", 2, 8),
        ("epsilon", 2.0, 3.0),
        ("  0", 1.0, 3.0),
        ("  1", 1.001, 3.0),
    ]
    assert found[0][3] == "2 of 8 done, about 24 s left"
    assert found[1][3] == "2.00 of 3.00 in this run"
    assert found[3][3] == "1.01 of 3.00"  # rounded up


def test_a_client_with_a_lower_budget_of_its_own_is_held_against_that() -> None:
    last = record(clients={"0": client(), "1": client(1.001, budget=2.0)})
    assert bars(after(last), 1.0)[-1] == ("  1", 1.001, 2.0, "1.01 of 2.00")


def test_many_clients_are_shown_by_their_ends_and_the_middle() -> None:
    found = bars(after(record(clients=MOST_CLIENTS + 5)), 1.0)
    assert [(name, done) for name, done, _, _ in found[2:]] == [
        ("  largest", 2.0),
        ("  median", 1.5),
        ("  least", 1.0),
    ]
    assert found[2][3] == "2.00 of 3.00 of 11 clients"


def test_answers_are_counted_of_those_that_were_asked() -> None:
    found = bars(RunProgress(rounds=8, budget=3.0, server_round=3, asked=5, answered=2, speed=1234.0), 1.0)
    assert found[1] == ("clients", 2, 5, "round 3: 2 of 5 clients have answered, 1,234 records/s")


def test_without_privacy_there_is_no_bar_of_an_epsilon() -> None:
    last = record(private=False, epsilon=math.inf)
    assert bars(after(last), 1.0)[1:] == [("epsilon", 0.0, 1.0, "NOT PRIVATE (no epsilon holds)")]


def test_an_epsilon_that_is_infinite_fills_the_bar() -> None:
    last = record(epsilon=math.inf)
    assert bars(after(last), 1.0)[1] == ("epsilon", 3.0, 3.0, "inf of 3.00 in this run")


def test_names_are_no_markup_and_move_no_cursor() -> None:
    last = record(clients={"[red]x[/red]\x1b\n": client(), "y" * 50: client()})
    text = drawn(after(last), no_color=True)
    assert r"[red]x[/red]\u001b " in text
    assert "\x1b[2J" not in text
    assert "y" * 19 + "…" in text


def test_colours_are_left_away_where_they_are_not_wished_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[9" not in drawn(after(record()))
    monkeypatch.delenv("NO_COLOR")
    assert "\x1b[9" in drawn(after(record()), color_system="standard")


def after_rounds(*seconds: float, rounds: int = 10) -> RunProgress:
    progress = RunProgress(rounds=rounds, budget=3.0)
    for number, each in enumerate(seconds, 1):
        progress = progress.in_round(number, 2).after(record(number, seconds=each))
    return progress


def test_the_time_that_is_left_is_that_of_the_latest_rounds_as_they_usually_are() -> None:
    """A first round that waited for clients does not count for all."""
    now = time.time()
    assert seconds_left(after_rounds(), now) is seconds_left(after_rounds(1.0, 1.0, rounds=2), now) is None
    assert seconds_left(after_rounds(100.0, 2.0, 2.0), now) == pytest.approx(14.0)
    assert seconds_left(after_rounds(*[50.0] * 5, *[1.0] * 5, rounds=20), now) == pytest.approx(10.0)


def test_what_has_passed_of_a_round_is_taken_off_but_never_more_than_a_round() -> None:
    progress = after_rounds(4.0, 4.0).in_round(3, 2)
    assert seconds_left(progress, progress.since + 1) == pytest.approx(31.0)
    assert seconds_left(progress, progress.since + 1000) == pytest.approx(28.0)


def test_a_round_in_words_and_what_is_done_between_rounds() -> None:
    assert in_words(RunProgress(rounds=7).in_round(3, 4)) == "round 3/7: 0 of 4 clients have answered"
    assert in_words(RunProgress().now("waiting")) == "waiting"
    assert in_words(after_rounds(1.0)) == ""
    first = RunProgress().now("waiting")
    assert first.now("waiting") is first  # it does not begin anew
