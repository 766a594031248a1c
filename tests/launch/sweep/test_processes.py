"""Jobs that are other programs than a run: what is tested is how they are started, told of and stopped."""

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from fl_dp.errors import ConfigError
from fl_dp.launch.sweep import processes
from fl_dp.launch.sweep.processes import Ended, Job, jobs_of, run_jobs


def job(name: str, code: str, folder: Path) -> Job:
    return Job(name, [sys.executable, "-c", code], folder / f"{name}.log")


def nothing(_: object) -> None:
    pass


def test_one_that_fails_ends_no_other_and_each_is_told_of(tmp_path):
    jobs = [job(str(code), f"print('hello'); raise SystemExit({code})", tmp_path) for code in (1, 0, 3)]
    started: list[Job] = []
    ended: list[Ended] = []
    run_jobs(jobs, 1, dict(os.environ), started=started.append, ended=ended.append)
    assert started == jobs
    assert [(end.job.name, end.code) for end in ended] == [("1", 1), ("0", 0), ("3", 3)]
    assert all(end.job.log.read_text() == "hello\n" for end in ended)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be divided on this system")
def test_jobs_at_a_time_have_cores_of_their_own(tmp_path):
    ours = os.sched_getaffinity(0)
    number = min(2, len(ours))
    code = "import os, time; print(sorted(os.sched_getaffinity(0))); time.sleep(1)"
    jobs = [job(str(n), code, tmp_path) for n in range(number)]
    run_jobs(jobs, number, dict(os.environ), started=nothing, ended=nothing)
    shares = [set(eval(one.log.read_text())) for one in jobs]
    assert set.union(*shares) == ours
    assert sum(map(len, shares)) == len(ours)
    assert os.sched_getaffinity(0) == ours


def test_ctrl_c_interrupts_those_that_run_waits_and_starts_no_more(tmp_path):
    code = (
        "import time\ntry:\n print('up', flush=True); time.sleep(60)\n"
        "except KeyboardInterrupt:\n time.sleep(0.5); print('clean')"
    )
    jobs = [job(name, code, tmp_path) for name in ("a", "b")]
    timer = threading.Timer(0, _interrupt_when_up, [jobs[0].log])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run_jobs(jobs, 1, dict(os.environ), started=nothing, ended=nothing)
    timer.join()
    assert jobs[0].log.read_text() == "up\nclean\n"
    assert not jobs[1].log.exists()


def _interrupt_when_up(log: Path) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not (log.exists() and log.read_text()):
        time.sleep(0.05)
    import _thread

    _thread.interrupt_main()


@pytest.mark.parametrize(
    ("text", "shared", "on_gpu", "expected"),
    [
        ("auto", False, False, 4), ("auto", True, False, 1), ("auto", False, True, 1), ("3", False, False, 3),
        ("1", True, False, 1),
    ],
)  # fmt: skip
def test_how_many_at_a_time(text, shared, on_gpu, expected, monkeypatch):
    monkeypatch.setattr(processes, "cores", lambda: 4)
    monkeypatch.setattr(processes, "_DIVIDED", True)
    assert jobs_of(text, 9, shared=shared, on_gpu=on_gpu) == expected
    assert jobs_of("auto", 2, shared=False, on_gpu=False) == 2


@pytest.mark.parametrize("text", ["0", "5", "-1", "two", ""])
def test_what_this_machine_cannot_do_is_refused(text, monkeypatch):
    monkeypatch.setattr(processes, "cores", lambda: 4)
    with pytest.raises(ConfigError, match="expected auto, or an integer from 1 to"):
        jobs_of(text, 9, shared=False, on_gpu=False)


def test_runs_on_one_ledger_go_one_after_the_other(monkeypatch):
    monkeypatch.setattr(processes, "cores", lambda: 4)
    monkeypatch.setattr(processes, "_DIVIDED", True)
    with pytest.raises(ConfigError, match="one after the other"):
        jobs_of("2", 9, shared=True, on_gpu=False)
