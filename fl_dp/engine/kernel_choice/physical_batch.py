"""The largest physical batch whose step fits a memory: found by running, from shapes alone."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from fl_dp.engine.kernel_choice.memory import peak_bytes
from fl_dp.engine.tracing.structure import map_tensors, tensors
from fl_dp.errors import ConfigError

# What a process takes over the tensors that are seen. On CPUs: what operators use inside, and what the
# allocator loses: the resident set grew by 1.2 to 1.8 times the tensors alive (eight models, one
# thread). On CUDA the statistics hold what operators use; the allocator's loss is what is left.
_CPU_MARGIN, _CUDA_MARGIN = 1.8, 1.2


def largest_batch(step: Callable[[int], object], memory: int, device: torch.device, *, at_most: int) -> int:
    """The largest n up to `at_most`, nearly, for which step(n) takes no more than `memory` bytes.

    step: computes on n examples, n >= 1; what it sets up, it sets up once. memory: beyond what lives
    before the call, with a margin for what is not seen. The answer depends on the peaks of step(n)
    alone, and has been run; all runs together take about three times as long as that one. PyTorch's global
    random state is left as it was. Raises ConfigError when not even one example fits.
    """
    cuda = device.type == "cuda"
    room = int(memory / (_CUDA_MARGIN if cuda else _CPU_MARGIN))
    needed = partial(_needed, step, room, device)
    with torch.random.fork_rng([device] if cuda else []):
        size = _predicted(needed, room, at_most)
        while size >= 1:
            peak = needed(size)
            if peak <= room:
                return size
            size = min(size - 1, max(1, size * room // peak))
    raise ConfigError(
        f"Not even one example fits {memory / 2**20:.0f} MiB; give the step more memory, or take a "
        "smaller model or smaller inputs."
    )


def _needed(step: Callable[[int], object], room: int, device: torch.device, size: int) -> int:
    try:
        return peak_bytes(lambda: step(size), device)
    except torch.OutOfMemoryError:
        return 2 * room  # how much it would take is not known: half as many are tried next


def _predicted(needed: Callable[[int], int], room: int, at_most: int) -> int:
    """By the line through the last two of sizes that double until the answer is below the next.

    Each moment of a step takes a + b n bytes, and the peak is the highest moment's: a line through two
    sizes is right, or too low further up, where another moment may take the lead.
    """
    needed(2)  # sets up what is set up once
    size, peak = 1, needed(1)
    while True:
        before, size, peak = peak, 2 * size, needed(2 * size)
        slope = max(1, peak - before) / (size / 2)
        found = min(at_most, size + math.floor((room - peak) / slope))
        if found < 2 * size:
            return found


def with_examples(batch: Any, size: int) -> Any:
    """A batch of the structure of `batch` that holds `size` examples: those of `batch`, over and over.

    The tensors whose first dimension is as long as that of the first tensor which has one hold the
    examples; all else stays as it is. Raises ConfigError where there is no example to repeat.
    """
    given = next((len(tensor) for _, tensor in tensors(batch) if tensor.dim()), 0)
    if given == 0:
        raise ConfigError("The batch holds no example to repeat; give one with at least one example.")

    def repeated(tensor: Tensor) -> Tensor:
        if tensor.dim() == 0 or len(tensor) != given:
            return tensor
        return tensor[torch.arange(size, device=tensor.device) % given]

    return map_tensors(repeated, batch)
