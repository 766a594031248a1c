"""Where kernels of Triton run."""

import functools
import importlib.util
import os
import shutil

import torch


@functools.cache
def has_triton(device: torch.device) -> bool:
    """Whether a Triton kernel runs there: it needs a supported NVIDIA GPU, Triton and a C compiler."""
    if device.type != "cuda":
        return False
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    installed = importlib.util.find_spec("triton") is not None and torch.version.cuda is not None
    return installed and compiler is not None and torch.cuda.get_device_capability(device) >= (8, 0)
