"""In a pipe: what is begun, once; what takes long, now and then; and no silence."""

import io
import threading

import pytest
from rich.console import Console

from fl_dp.reporting import progress_lines as module
from fl_dp.reporting import run_progress
from fl_dp.reporting.progress_lines import AGAIN_SECONDS, ProgressLines
from fl_dp.reporting.run_progress import RunProgress

RUN = RunProgress(rounds=10, budget=3.0)


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
    monkeypatch.setattr(run_progress, "time", clock)
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
        "calibrating the noise", "calibrating the noise (30 s)", "calibrating the noise (60 s)",
    ]  # fmt: skip


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
