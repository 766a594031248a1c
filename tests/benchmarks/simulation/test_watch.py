"""With commands that take a second or less."""

import sys
import time

import pytest

from benchmarks.simulation.usage import Usage
from benchmarks.simulation.watch import Command, Moment, NotMeasured, is_any, is_ray_actor, seen_of, watch

ROUNDS = """
import sys, time
from pathlib import Path
from benchmarks.simulation.rounds import RoundClock
clock = RoundClock(Path(sys.argv[1]))
for _ in range(3):
    time.sleep(0.2)
    clock.tick()
time.sleep(0.2)
"""


def command(code, folder, rounds=3):
    return Command([sys.executable, "-c", code, str(folder)], folder, rounds, trains=is_any)


def test_rounds_are_seen_from_outside(tmp_path):
    seen = watch(command(ROUNDS, tmp_path / "run"), limit=30)
    assert seen.round_seconds == pytest.approx([0.2, 0.2, 0.2], abs=0.15)
    assert seen.counted == seen.round_seconds[1:2]
    assert 0 < seen.start_seconds < 5
    assert seen.driver_peak_bytes > 2**20
    assert seen.training_share is None  # two tenths of a second: too short to tell


def test_a_command_that_fails_tells_why(tmp_path):
    with pytest.raises(NotMeasured, match="no such thing") as ended:
        watch(command("raise SystemExit('no such thing')", tmp_path / "run"), limit=30)
    assert ended.value.word == "failed"


def test_a_command_that_ends_early_has_failed(tmp_path):
    with pytest.raises(NotMeasured, match="exit code 0"):
        watch(command(ROUNDS, tmp_path / "run", rounds=4), limit=30)


def test_a_command_that_does_not_end_is_given_up(tmp_path):
    start = time.monotonic()
    with pytest.raises(NotMeasured, match=r"0\.5 s"):
        watch(command("import time; time.sleep(60)", tmp_path / "run"), limit=0.5)
    assert time.monotonic() - start < 10


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


def test_rays_actors_are_known_by_their_titles():
    assert is_ray_actor("ray::ClientAppActor.run")
    assert not is_ray_actor("/usr/bin/raylet")
