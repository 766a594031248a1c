"""How much memory this process uses, and the most it has used since a moment.

On CUDA devices what PyTorch has allocated, else the process's resident set (Linux with glibc).
"""

import ctypes
import gc
from pathlib import Path

import torch


def start_of_peak(device: str) -> int:
    """Bytes in use now; `peak` counts from here."""
    gc.collect()
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    ctypes.CDLL(None).malloc_trim(0)  # what is free goes back to the system
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts again (proc(5))
    return _resident("VmRSS")


def peak(device: str) -> int:
    """The most bytes in use since `start_of_peak`."""
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated()
    return _resident("VmHWM")


def _resident(field: str) -> int:
    """A size from /proc/self/status, in bytes: VmRSS is the resident set, VmHWM its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))
