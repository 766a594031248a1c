"""What the runs of one program share, and what they do not."""

import json
import logging
import os
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

import fl_dp
from fl_dp.errors import ConfigError
from fl_dp.launch.processes import MARKER
from fl_dp.launch.session import private_records, ray_for_run


def run(address: str = "", *, error: BaseException | None = None, early: bool = False) -> None:
    """A run that fails with this error, maybe before it has used Ray."""
    with suppress(KeyError, KeyboardInterrupt), ray_for_run(address) as one:
        if early and error:
            raise error
        one.wait()
        assert MARKER in os.environ
        if error:
            raise error


def test_ray_runs_from_the_first_run_of_a_session_to_its_end_and_outside_for_each_run(ray):
    run()
    assert ray.seen == ["start", "end"]
    with fl_dp.session():
        run()
        assert MARKER not in os.environ  # what the program starts now is no part of a run
        with fl_dp.session():
            run()
        run()
        assert ray.seen == ["start", "end", "start"]
    assert ray.seen == ["start", "end"] * 2
    with fl_dp.session():
        pass  # starts nothing
    assert ray.seen == ["start", "end"] * 2


@pytest.mark.parametrize("error", [KeyError(), KeyboardInterrupt()])
def test_after_a_run_that_failed_ray_starts_anew_but_not_after_one_that_was_refused(ray, error):
    with fl_dp.session():
        run()
        run(error=error, early=True)
        run()
        assert ray.seen == ["start"]
        run(error=error)
        run()
    assert ray.seen == ["start", "end"] * 2


def test_another_cluster_or_a_ray_that_is_gone_is_another_ray(ray, monkeypatch):
    monkeypatch.setattr("fl_dp.launch.ray_ahead.check_cluster", lambda address: None)
    with fl_dp.session():
        run()
        run("head:6379")
        assert ray.seen == ["start", "end", "start"]
        ray.there = False
        run("head:6379")
    assert ray.seen == ["start", "end"] * 3


def test_the_actors_stop_before_ray(ray):
    closing = SimpleNamespace(close=lambda: ray.seen.append("actors end"))
    with fl_dp.session(), ray_for_run("") as one:
        one.wait()
        one.kept = closing
    assert ray.seen == ["start", "actors end", "end"]


def test_two_threads_do_not_simulate_at_once(ray):
    found: list[str] = []

    def other() -> None:
        try:
            run()
        except ConfigError as error:
            found.append(str(error))

    with fl_dp.session():
        with ray_for_run("") as one:
            one.wait()
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
        run()
    assert "another thread simulates in this fl_dp.session" in found[0]
    assert ray.seen == ["start", "end"]


def test_nothing_that_ray_says_between_two_runs_gets_to_the_console(capsys):
    with fl_dp.session():
        logging.getLogger("fl_dp.clients").warning("Ray: record 17")
    assert capsys.readouterr() == ("", "")
    assert not logging.getLogger("fl_dp.clients").handlers


def test_records_in_memory_have_the_same_private_place_in_each_run_of_a_session():
    with fl_dp.session():
        with private_records() as first, private_records() as beside:
            assert first != beside
            assert stat.S_IMODE(Path(first).stat().st_mode) == 0o700
            Path(first, "records.npz").touch()
        assert not Path(first).exists()
        with private_records() as second:
            assert not list(Path(second).iterdir())
        assert first == second
    assert not Path(first).parent.exists()


PROGRAM = """
import json, time
import torch
import fl_dp
from fl_dp.launch import session

class Mine(fl_dp.Task):
    classes = ("no", "yes")
    def model(self):
        return torch.nn.Linear(4, 2)

def made(seed):
    x = torch.randn(400, 4, generator=torch.Generator().manual_seed(seed))
    return fl_dp.TensorData(x, (x[:, 0] > 0).long(), ("no", "yes"))

def actors():
    ray = session._open[0]._ray
    return sorted(one.handle._actor_id.hex() for one in ray.kept._actors.pool._actors.values())

def simulate(out, seed=0, **more):
    fixed = dict(clients=2, rounds=2, expected_batch_size=32, physical_batch_size=32, quiet=True)
    data = dict(data=made(seed), test_data=made(9))
    started = time.perf_counter()
    result = fl_dp.simulate(task=Mine, out=out, **data, **fixed, **more)
    return actors(), result, time.perf_counter() - started

with fl_dp.session():
    first, one, cold = simulate("first")
    second, two, warm = simulate("second", epsilon=1)
    third, _, _ = simulate("other-records", seed=1)
    fourth, _, _ = simulate("other-loss", loss="cross-entropy", class_weights="1,2")
print(json.dumps({
    "actors": [first, second, third, fourth], "cold": cold, "warm": warm,
    "epsilons": [one.epsilon, two.epsilon],
}))
"""


@pytest.mark.slow
def test_a_session_keeps_actors_for_runs_that_need_the_same_and_is_the_faster_for_it(tmp_path):
    command = [sys.executable, "-"]
    done = subprocess.run(
        command, input=PROGRAM, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=280
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    first, second, third, fourth = found["actors"]
    assert first == second == third
    assert not set(first) & set(fourth)
    assert 3 * found["warm"] < found["cold"]
    assert 0 < found["epsilons"][1] <= 1 < found["epsilons"][0] <= 3
    accounts = {path.parent.parent.name for path in tmp_path.glob("*/ledgers/*.sqlite")}
    assert {"first", "second", "other-records"} <= accounts  # a ledger for each
