"""Working through a batch a few examples at a time, so that intermediate results stay small."""

from collections.abc import Iterator

import torch

# Bytes of intermediate results at once. On a CPU they fit a core's second-level cache, and are too few for
# the allocator to return them to the system when freed. On a GPU they are enough to keep it busy.
_CPU_BYTES, _GPU_BYTES = 2**21, 2**28


def example_chunks(
    num_examples: int, numbers: int, dtype: torch.dtype, device: torch.device
) -> Iterator[slice]:
    """Slices of the examples, as long as their intermediate results fit, one example at least.

    numbers: of intermediate results for each example, of type `dtype`.
    """
    limit = _CPU_BYTES if device.type == "cpu" else _GPU_BYTES
    size = max(1, limit // max(1, numbers * dtype.itemsize))
    return (slice(start, start + size) for start in range(0, num_examples, size))
