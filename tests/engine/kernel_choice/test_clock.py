"""What kernels are timed with: of one thread on a CPU its own time, elsewhere the clock on the wall."""

import time
from types import SimpleNamespace

import pytest
import torch

from fl_dp.engine.kernel_choice import clock
from fl_dp.engine.kernel_choice.clock import clock_for

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def threads(monkeypatch):
    return lambda number: monkeypatch.setattr(torch, "get_num_threads", lambda: number)


def _resolution(monkeypatch, seconds):
    monkeypatch.setattr(clock.time, "get_clock_info", lambda _: SimpleNamespace(resolution=seconds))


def test_one_thread_is_timed_without_what_others_take(threads, monkeypatch):
    threads(1)
    _resolution(monkeypatch, 1e-9)
    now = clock_for(CPU)
    start = now()
    time.sleep(0.2)  # as while another process has the core
    assert now() - start < 0.1


def test_several_threads_and_gpus_are_timed_by_the_wall(threads, monkeypatch):
    _resolution(monkeypatch, 1e-9)
    threads(2)
    assert clock_for(CPU) is time.perf_counter
    threads(1)
    assert clock_for(GPU) is time.perf_counter


def test_a_coarse_clock_of_threads_is_not_used(threads, monkeypatch):
    threads(1)
    _resolution(monkeypatch, 0.0156)  # that of Windows
    assert clock_for(CPU) is time.perf_counter
