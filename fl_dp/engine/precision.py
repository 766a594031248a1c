"""Products in the type of their inputs, whatever lower precision is allowed around them."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Within it, products and convolutions of float32 numbers are computed in float32.

    Outside, three settings of the user may lower them: `torch.set_float32_matmul_precision` and
    `torch.backends.*.fp32_precision` (TensorFloat-32 on GPUs, bfloat16 on CPUs that have it), and
    autocast. A rounding bound that counts in float32 would then be wrong by a factor of 8,000 or more.

    The settings are the whole process's: other threads compute in full precision meanwhile, and one
    that lowers them meanwhile lowers them here. What is not lowered is not written: on CPUs nothing
    by default, on GPUs cuDNN's convolutions, for which PyTorch allows TensorFloat-32.
    """
    mkldnn, cudnn = torch.backends.mkldnn, torch.backends.cudnn
    backends = (torch.backends.cuda.matmul, mkldnn.matmul, cudnn.conv, mkldnn.conv)  # type: ignore[attr-defined]
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
