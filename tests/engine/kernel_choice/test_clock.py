"""What kernels are timed with: of one thread on a CPU its own time, elsewhere the clock on the wall."""

import time
from types import SimpleNamespace

import pytest
import torch

from fl_dp.engine.kernel_choice.clock import clock_for


@pytest.mark.parametrize(
    ("device", "threads", "resolution", "clock"),
    [
        ("cpu", 1, 1e-9, time.thread_time),  # without what other processes take
        ("cpu", 2, 1e-9, time.perf_counter),
        ("cuda", 1, 1e-9, time.perf_counter),
        ("cpu", 1, 0.0156, time.perf_counter),  # as coarse as that of Windows
    ],
)
def test_the_clock(device, threads, resolution, clock, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(time, "get_clock_info", lambda _: SimpleNamespace(resolution=resolution))
    assert clock_for(torch.device(device)) is clock
