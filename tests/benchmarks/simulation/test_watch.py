"""With commands that take a second or less."""

import sys

import pytest

from benchmarks.simulation.usage import Usage
from benchmarks.simulation.watch import Command, Moment, NotMeasured, is_any, seen_of, watch

ROUNDS = """
import sys, time
from pathlib import Path
from benchmarks.simulation.rounds import RoundClock
clock = RoundClock(Path(sys.argv[1]))
for _ in range(3):
    time.sleep(0.1)
    clock.tick()
time.sleep(0.1)
"""


def watched(code, folder, rounds=3, limit=300):
    return watch(
        Command([sys.executable, "-c", code, str(folder)], folder, rounds, trains=is_any), limit=limit
    )


@pytest.mark.parametrize(
    ("code", "more", "words"),
    [
        (ROUNDS, {"rounds": 4}, "exit code 0"),  # it ended early
        ("import time; time.sleep(900)", {"limit": 0.1}, r"0\.1 s"),
    ],
)
def test_a_command_that_fails_ends_early_or_does_not_end_tells_why(code, more, words, tmp_path):
    with pytest.raises(NotMeasured, match=words):
        watched(code, tmp_path / "run", **more)


def moments(*usages):
    return [Moment(10.0 * i, usage) for i, usage in enumerate(usages, start=1)]


def test_shares_are_of_all_cores_in_the_rounds_that_count(monkeypatch):
    monkeypatch.setattr("benchmarks.simulation.watch.cores", lambda: 2)
    lines = [{"seconds": 8.0}, {"seconds": 4.0}, {"seconds": 6.0}, {"seconds": 99.0}]
    ends = moments(Usage(1, 2, 100), Usage(9, 11, 110), Usage(17, 20, 122), Usage(99, 99, 999))
    seen = seen_of(lines, [], ends)
    assert seen.training_share == pytest.approx((17 - 1) / (20 * 2))
    assert seen.other_share == pytest.approx((22 - 18) / (20 * 2))
    assert seen.cpu_seconds == pytest.approx((20 - 2) / 2)
    assert seen.start_seconds == pytest.approx(10 - 5)  # what the first round took longer is start
    assert seen.driver_peak_bytes is None
    assert seen_of(lines, [], ends[:3]) == seen  # it had ended before its last round was noticed


def test_a_contender_that_tells_when_it_trained_is_believed(monkeypatch):
    monkeypatch.setattr("benchmarks.simulation.watch.cores", lambda: 2)
    lines = [{"seconds": 9.0}, {"seconds": 5.0}, {"seconds": 5.0}, {"seconds": 9.0}]
    work = [{"busy_seconds": 1.0}, {"busy_seconds": 9.0}, {"busy_seconds": 9.0}, {"busy_seconds": 1.0}]
    seen = seen_of(lines, work, moments(*(Usage(i, i, i) for i in range(4))))
    assert seen.training_share == pytest.approx(0.9)
