"""Products in the precision of their inputs, whatever lower precision the user's settings allow."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch


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
