"""Decisions from passes of random numbers, before anything is paid for: kernels, and the rows of a pass."""

import logging
from collections.abc import Callable
from functools import partial

import torch

from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.kernel_choice.chooser import KernelChooser, clock_for
from fl_dp.engine.kernel_choice.memory import is_out_of_memory, peak_bytes
from fl_dp.engine.kernel_choice.physical_batch import room_in
from fl_dp.errors import UnsteadyError
from fl_dp.training.rows import best_rows, instead_of, most_rows

logger = logging.getLogger("fl_dp")

_TRIES, _ENOUGH = 4, 0.1  # timings of a pass, of which the shortest counts; none after so many seconds


def quickest_rows(
    rehearse: Callable[[int], object], expected_batch_size: int, at_most: int, device: torch.device
) -> int:
    """The rows of a pass, up to `at_most`, with which a step is fastest; fewer if memory runs out.

    rehearse: runs a pass of that many random examples; the first of a size may choose kernels.
    """
    clock = clock_for(device)

    def seconds(size: int) -> float:
        rehearse(size)  # chooses kernels
        times: list[float] = []
        while len(times) < _TRIES and sum(times) < _ENOUGH:
            start = clock()
            rehearse(size)
            times.append(clock() - start)
        return min(times)

    while True:
        try:
            return best_rows(seconds, expected_batch_size, at_most, most_rows(device))
        except RuntimeError as error:
            if at_most == 1 or not is_out_of_memory(error):
                raise
        at_most //= 2


def steady_rows(check: Callable[[int], None], rows: int, at_most: int) -> int:
    """`rows`, or another number up to `at_most`, for which `check` raises no UnsteadyError.

    If all numbers that memory allows raise it, the error of `rows` is raised. If memory does not allow `rows`
    itself, `rows` is returned: the caller must check what fits.
    """
    first: UnsteadyError | None = None
    for number in (rows, *instead_of(rows, at_most)):
        try:
            check(number)
            return number
        except UnsteadyError as error:
            first = first or error
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            if first is None:
                return rows
    assert first is not None  # the error of `rows`
    raise first


def chooser_that_fits(
    chosen: KernelChooser,
    rehearse: Callable[[KernelChooser], ClippedSum],
    memory: int,
    rows: int,
    device: torch.device,
) -> KernelChooser:
    """A chooser with the kernels of `chosen`; with those that keep least, if so a pass takes too much memory.

    Only kernels that were tried are chosen anew: a ghost kernel where that keeps less. If a pass of so many
    rows does not fit `memory` bytes with these either, nearly, there is a warning. rehearse: runs such a pass
    with the chooser's kernels.
    """
    least = {row.parameter: min(row.kept, key=row.kept.__getitem__) for row in chosen.rows if row.kept}
    one = chosen
    for kernels in (chosen.kernels, chosen.kernels | least):
        one = KernelChooser(fixed=kernels)
        if _fits(partial(rehearse, one), room_in(memory, device), device):
            return one
    logger.warning(
        "a pass of %d examples takes more than memory-mib = %d, whatever its kernels: with "
        'physical-batch-size = "auto" there are as many as fit',
        rows,
        memory >> 20,
    )
    return one


def _fits(run: Callable[[], object], room: int, device: torch.device) -> bool:
    try:
        return peak_bytes(run, device) <= room
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
    return False
