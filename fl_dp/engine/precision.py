"""Products in the precision of their inputs, whatever lower precision the user's settings allow."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from fl_dp.errors import ConfigError

# Read by NVIDIA's libraries, which then compute otherwise than PyTorch asks.
_OVERRIDES = ("NVIDIA_TF32_OVERRIDE", "CUBLAS_EMULATE_SINGLE_PRECISION", "CUBLAS_EMULATE_DOUBLE_PRECISION")


def check_overrides(device: torch.device) -> None:
    """ConfigError if an environment variable may lower the precision of a GPU's products.

    PyTorch does not see it, so `full_precision` could not undo it.
    """
    found = [name for name in _OVERRIDES if os.environ.get(name, "0") not in ("", "0")]
    if device.type == "cuda" and found:
        raise ConfigError(
            f"{' and '.join(found)} in the environment: NVIDIA's libraries may round more than was proven, "
            "whatever PyTorch asks for. Unset it, or set it to 0."
        )


def precisions() -> dict[str, str]:
    """What PyTorch's settings allow for products, convolutions and recurrent layers, by backend."""
    parts = {"cuda": ("matmul",), "cudnn": ("conv", "rnn"), "mkldnn": ("matmul", "conv", "rnn")}
    return {
        f"{name}.{part}": getattr(getattr(torch.backends, name), part).fp32_precision
        for name, names in parts.items()
        for part in names
    }


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Within it, products and convolutions of float32 numbers are computed in float32.

    Otherwise three settings of the user may lower their precision: `torch.set_float32_matmul_precision`,
    `torch.backends.*.fp32_precision` (TensorFloat-32 on GPUs, bfloat16 on CPUs that have it), and
    autocast. A rounding bound for float32 would then be too small by a factor of 8,000 or more.

    The settings belong to the whole process: meanwhile other threads also compute in full precision, and a
    thread that lowers a setting lowers it here, too. Only settings that are lowered are written: by default
    none on CPUs, and on GPUs that of cuDNN's convolutions, for which PyTorch allows TensorFloat-32.
    """
    mkldnn: Any = torch.backends.mkldnn  # PyTorch declares no types of its parts
    cudnn: Any = torch.backends.cudnn
    backends = (torch.backends.cuda.matmul, mkldnn.matmul, cudnn.conv, mkldnn.conv)
    lowered = [(b, p) for b in backends if (p := b.fp32_precision) not in ("ieee", "none")]
    autocast = torch.is_autocast_enabled(device.type)
    for backend, _ in lowered:
        backend.fp32_precision = "ieee"
    try:
        with torch.autocast(device.type, enabled=False) if autocast else nullcontext():
            yield
    finally:
        for backend, precision in lowered:
            backend.fp32_precision = precision
