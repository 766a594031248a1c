"""How far a run is, and how long it may still take."""

import time

import pytest
from run_records import record

from fl_dp.reporting.progress import RunProgress, in_words, seconds_left


def after(*seconds: float, rounds: int = 10) -> RunProgress:
    progress = RunProgress(rounds=rounds, budget=3.0)
    for number, each in enumerate(seconds, 1):
        progress = progress.in_round(number, 2).after(record(number, seconds=each))
    return progress


def test_the_time_that_is_left_is_that_of_the_latest_rounds_as_they_usually_are() -> None:
    """A first round that waited for clients does not count for all."""
    now = time.time()
    assert seconds_left(after(), now) is seconds_left(after(1.0, 1.0, rounds=2), now) is None
    assert seconds_left(after(100.0, 2.0, 2.0), now) == pytest.approx(14.0)
    assert seconds_left(after(*[50.0] * 5, *[1.0] * 5, rounds=20), now) == pytest.approx(10.0)


def test_what_has_passed_of_a_round_is_taken_off_but_never_more_than_a_round() -> None:
    progress = after(4.0, 4.0).in_round(3, 2)
    assert seconds_left(progress, progress.since + 1) == pytest.approx(31.0)
    assert seconds_left(progress, progress.since + 1000) == pytest.approx(28.0)


def test_a_round_in_words_and_what_is_done_between_rounds() -> None:
    assert in_words(RunProgress(rounds=7).in_round(3, 4)) == "round 3/7: 0 of 4 clients have answered"
    assert in_words(RunProgress().now("waiting")) == "waiting"
    assert in_words(after(1.0)) == ""
    first = RunProgress().now("waiting")
    assert first.now("waiting") is first  # it does not begin anew
