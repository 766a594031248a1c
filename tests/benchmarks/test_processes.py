"""With real processes: each takes a second or two to start."""

import os
import signal

import pytest

from benchmarks.measure import Setting
from benchmarks.processes import Ended, remote

pytestmark = pytest.mark.slow

SMALL = Setting("tanh-cnn", "fl-dp-mixed", batch=8)


def test_a_process_sets_up_with_its_first_step_and_takes_turns():
    with remote(SMALL, limit=120) as process:
        first, further = process.first_step(), process.turn()
        assert first.seconds > further.seconds > 0
        assert first.peak_bytes >= 4096
        assert process.turn().peak_bytes >= further.peak_bytes >= 4096  # of all turns so far


def test_an_engine_that_fails_tells_why():
    with remote(Setting("no such model", "sgd", 8), limit=120) as process, pytest.raises(Ended) as ended:
        process.first_step()
    assert ended.value.status == "failed"
    assert "no such model" in ended.value.reason


def test_a_process_that_is_killed_is_noticed():
    with remote(SMALL, limit=120) as process:
        process.first_step()
        os.kill(process._process.pid, signal.SIGKILL)
        with pytest.raises(Ended, match="signal 9"):
            process.turn()


def test_a_process_that_does_not_answer_is_given_up():
    with remote(SMALL, limit=0.0) as process, pytest.raises(Ended) as ended:
        process.first_step()
    assert ended.value.status == "slow"
