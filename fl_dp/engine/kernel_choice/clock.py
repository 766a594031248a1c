"""What kernels and passes are timed with before one of them is chosen."""

import time
from collections.abc import Callable

import torch

_FINE = 1e-5  # seconds: a coarser clock cannot tell kernels apart


def clock_for(device: torch.device) -> Callable[[], float]:
    """Seconds, of which only differences mean anything.

    Where one thread computes, its own time on the processor: while other processes have the core, a clock on
    the wall goes on for many times what a kernel takes, and the choice would be theirs. Simulated clients
    share their cores. With several threads, or on a GPU, the clock on the wall.
    """
    alone = device.type == "cpu" and torch.get_num_threads() == 1
    fine = time.get_clock_info("thread_time").resolution <= _FINE
    return time.thread_time if alone and fine else time.perf_counter
