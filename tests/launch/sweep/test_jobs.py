"""Jobs that are other programs than a run: what is tested is how they are started, told of and stopped."""

import _thread
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from launch.commands import wait_for

from fl_dp.errors import ConfigError
from fl_dp.launch.sweep import jobs
from fl_dp.launch.sweep.jobs import Job, jobs_of, run_jobs


def job(name: str, code: str, folder: Path) -> Job:
    return Job(name, [sys.executable, "-c", code], folder / f"{name}.log")


def run(jobs: list[Job], at_once: int = 1, started: Any = id, ended: Any = lambda *_: None) -> None:
    run_jobs(jobs, at_once, dict(os.environ), started=started, ended=ended)


def test_one_that_fails_ends_no_other_and_each_is_told_of(tmp_path):
    jobs = [job(str(code), f"print('hello'); raise SystemExit({code})", tmp_path) for code in (1, 0, 3)]
    started, ended = [], []
    run(jobs, started=started.append, ended=lambda *end: ended.append(end))
    assert started == jobs
    assert [(job.name, code) for job, code, _ in ended] == [("1", 1), ("0", 0), ("3", 3)]
    assert all(job.log.read_text() == "hello\n" for job in jobs)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be divided on this system")
def test_jobs_at_a_time_have_cores_of_their_own(tmp_path):
    ours = os.sched_getaffinity(0)
    number = min(2, len(ours))
    code = "import os; print(sorted(os.sched_getaffinity(0)))"
    jobs = [job(str(n), code, tmp_path) for n in range(number)]
    run(jobs, number)
    shares = [set(eval(one.log.read_text())) for one in jobs]
    assert set.union(*shares) == ours
    assert sum(map(len, shares)) == len(ours)
    assert os.sched_getaffinity(0) == ours


def test_ctrl_c_interrupts_those_that_run_waits_and_starts_no_more(tmp_path):
    code = (
        "import time\ntry:\n print('up', flush=True); time.sleep(900)\n"
        "except KeyboardInterrupt:\n time.sleep(0.5); print('clean')"
    )
    jobs = [job(name, code, tmp_path) for name in ("a", "b")]

    def interrupt_when_up():
        wait_for(lambda: jobs[0].log.exists() and jobs[0].log.read_text())
        _thread.interrupt_main()

    timer = threading.Thread(target=interrupt_when_up)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run(jobs)
    timer.join()
    assert jobs[0].log.read_text() == "up\nclean\n"
    assert not jobs[1].log.exists()


@pytest.fixture
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "cores", lambda: 4)
    monkeypatch.setattr(jobs, "_DIVIDED", True)


@pytest.mark.parametrize(
    ("text", "runs", "shared", "on_gpu", "expected"),
    [
        ("auto", 9, False, False, 4),
        ("auto", 2, False, False, 2),
        ("auto", 9, True, False, 1),
        ("auto", 9, False, True, 1),
        ("3", 9, False, False, 3),
        ("1", 9, True, False, 1),
    ],
)
def test_how_many_at_a_time(text, runs, shared, on_gpu, expected, four_cores):
    assert jobs_of(text, runs, shared=shared, on_gpu=on_gpu) == expected


@pytest.mark.parametrize("text", ["0", "5", "-1", "two", ""])
def test_what_this_machine_cannot_do_is_refused(text, four_cores):
    with pytest.raises(ConfigError, match="expected auto, or an integer from 1 to"):
        jobs_of(text, 9, shared=False, on_gpu=False)
    with pytest.raises(ConfigError, match="one after the other"):
        jobs_of("2", 9, shared=True, on_gpu=False)
