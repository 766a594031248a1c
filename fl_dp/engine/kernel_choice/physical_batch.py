"""The largest physical batch whose step fits a memory, found by trial steps that depend on shapes alone."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from fl_dp.engine.kernel_choice.memory import peak_bytes, unless_out_of_memory
from fl_dp.engine.tracing.draws import kept_random_state
from fl_dp.engine.tracing.harness import batch_of
from fl_dp.errors import ConfigError

# A process's memory, as a multiple of the tensors that are seen. On CPUs operators use memory internally, and
# the allocator loses some: the resident set grew by 1.2 to 1.8 times the tensors alive (eight models, one
# thread). On CUDA the statistics include what operators use; only the allocator's loss is added.
_CPU_MARGIN, _CUDA_MARGIN = 1.8, 1.2


def room_in(memory: int, device: torch.device) -> int:
    """Bytes of visible tensors that a step may hold, so that it takes no more than `memory` bytes."""
    return int(memory / (_CUDA_MARGIN if device.type == "cuda" else _CPU_MARGIN))


def largest_batch(step: Callable[[int], object], memory: int, device: torch.device, *, at_most: int) -> int:
    """The largest n up to `at_most`, nearly, for which step(n) takes no more than `memory` bytes.

    step: computes on n examples, n >= 1; its first call may set things up. memory: beyond what is alive
    before the call; a margin is kept for memory that is not seen. The result depends only on the peaks of
    step(n), and step has been run with it. All runs together take about three times as long as the one with
    the result. PyTorch's global random state does not change. Raises ConfigError if not even one example
    fits.
    """
    room = room_in(memory, device)
    needed = partial(_needed, step, room, device)
    with kept_random_state():
        size = _predicted(needed, room, at_most)
        while size >= 1:
            peak = needed(size)
            if peak <= room:
                return size
            size = min(size - 1, max(1, size * room // peak))
    raise ConfigError(
        f"Not even one example fits in {memory / 2**20:.0f} MiB; give the step more memory, or use a "
        "smaller model or smaller inputs."
    )


def _needed(step: Callable[[int], object], room: int, device: torch.device, size: int) -> int:
    peak = unless_out_of_memory(lambda: peak_bytes(lambda: step(size), device))
    return 2 * room if peak is None else peak  # unknown is taken as twice the room: half is tried next


def _predicted(needed: Callable[[int], int], room: int, at_most: int) -> int:
    """The largest size that should fit, by a straight line through the peaks of two sizes.

    Sizes are doubled until the prediction lies below the next size. Each moment of a step takes a + b n
    bytes, and the peak is that of the highest moment. So a line through two sizes is right, or too low for
    larger sizes, where another moment may be the highest.
    """
    needed(2)  # the first call may set things up
    size, peak = 1, needed(1)
    while True:
        before, size, peak = peak, 2 * size, needed(2 * size)
        slope = max(1, peak - before) / (size / 2)
        found = min(at_most, size + math.floor((room - peak) / slope))
        if found < 2 * size:
            return found


def with_examples(batch: Any, size: int) -> Any:
    """A batch of the structure of `batch` with `size` examples: those of `batch` (see `batch_of`), repeated.

    Raises ConfigError if there is no example to repeat.
    """
    given = batch_of((batch,), {})
    if given.size == 0:
        raise ConfigError("The batch holds no example to repeat; give one with at least one example.")
    return given.rows([row % given.size for row in range(size)]).args[0]
