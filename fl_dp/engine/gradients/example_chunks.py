"""Working through a batch a few examples at a time, so that intermediate results stay small."""

from collections.abc import Iterator

import torch

# Bytes of intermediate results at once: what stays in a CPU core's second-level cache, and below
# what the system takes back when it is freed; on a GPU enough to keep it busy.
_CPU_BYTES, _GPU_BYTES = 2**21, 2**28


def example_chunks(
    num_examples: int, numbers: int, dtype: torch.dtype, device: torch.device
) -> Iterator[slice]:
    """Slices of the examples such that `numbers` intermediate numbers for each of them fit; at least one."""
    limit = _CPU_BYTES if device.type == "cpu" else _GPU_BYTES
    size = max(1, limit // max(1, numbers * dtype.itemsize))
    return (slice(start, start + size) for start in range(0, num_examples, size))
