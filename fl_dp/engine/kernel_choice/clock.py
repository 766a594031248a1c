"""The clock that times kernels and passes before one of them is chosen."""

import time
from collections.abc import Callable

import torch

_FINE = 1e-5  # seconds: a coarser clock cannot tell kernels apart


def clock_for(device: torch.device) -> Callable[[], float]:
    """A clock in seconds, of which only differences mean anything.

    If one thread computes, it is that thread's CPU time. While other processes have the core, a wall clock
    continues for many times what a kernel takes, and would let them decide the choice. Simulated clients
    share their cores. With several threads, or on a GPU, it is the wall clock.
    """
    alone = device.type == "cpu" and torch.get_num_threads() == 1
    fine = time.get_clock_info("thread_time").resolution <= _FINE
    return time.thread_time if alone and fine else time.perf_counter
