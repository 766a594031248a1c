"""Decisions from passes of random numbers, before anything is paid for: kernels, and the rows of a pass."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

import torch
from torch import Tensor

from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.kernel_choice.chooser import KernelChooser, clock_for
from fl_dp.engine.kernel_choice.memory import peak_bytes, unless_out_of_memory
from fl_dp.engine.kernel_choice.physical_batch import largest_batch, room_in
from fl_dp.engine.steady_rows import check_steady
from fl_dp.engine.tracing.draws import kept_random_state
from fl_dp.errors import UnsteadyError
from fl_dp.training.clipped_passes import ClippedPasses
from fl_dp.training.examples import check_own_losses
from fl_dp.training.objective import Batch
from fl_dp.training.passes import Passes
from fl_dp.training.replicas import Replicas
from fl_dp.training.retreat import retreating
from fl_dp.training.rows import best_rows, instead_of, most_rows, steady
from fl_dp.training.step import nothing

logger = logging.getLogger("fl_dp")

_TRIES, _ENOUGH = 4, 0.1  # timings of a pass, of which the shortest counts; no more after so many seconds


class Rehearsing:
    """What a private trainer does before a payment, with random numbers: it reveals nothing about the data.

    one_by_one: whether every record has its own pass, for which nothing is to be chosen.
    """

    def __init__(self, clipped: ClippedPasses, *, one_by_one: bool) -> None:
        self.clipped, self.rule, self._one_by_one = clipped, clipped.rule, one_by_one
        self._passes, self.device = clipped.first, clipped.first.device
        self.objective = self._passes.objective
        self._steady: set[tuple[object, ...]] = set()  # the rows, with kernels, that were checked

    @property
    def most_at_once(self) -> int:
        """Examples that a step may want at once; a larger Poisson draw is very unlikely."""
        return 1 if self._one_by_one else 2 * self.rule.batch_size

    @property
    def kernels(self) -> Mapping[str, str]:
        """The kernels chosen in the latest batch; may be given to another chooser as `fixed`."""
        return self._passes.chooser.kernels

    def declare_shapes(self) -> None:
        """Let a pass of random numbers decide the shape of all, unless one has run with these kernels."""
        if not self._one_by_one and not self._passes.chooser.rows:
            with kept_random_state():
                self.rehearse(1)

    def use_kernels(self, kernels: Mapping[str, str]) -> None:
        """Use these kernels, by parameter, and measure none."""
        self._passes.chooser = KernelChooser(fixed=kernels, ordered=True)

    def check_losses(self) -> None:
        """ProbeError if an example moves another's loss."""
        check_own_losses(self._passes.losses_of, self.objective)

    def rehearse(self, size: int) -> ClippedSum:
        """The clipped sum of `size` examples of random numbers. It chooses kernels and changes no weight."""
        if self._one_by_one:
            # Two: a model whose second pass fails would leave all records but the first without a gradient.
            return self.clipped.one_by_one((self.objective.blank(1) for _ in range(2)), all_count=True)
        blank, replicas = self.objective.blank(size), self.clipped.replicas
        replicas.follow()
        # all devices: one that failed later would show that a draw was large enough to need it
        sums = [self.clipped.sum_of_pass(blank, size, passes) for passes in replicas.all]
        return nothing(self.rule) + sums[0]

    def largest_physical_batch(self, memory: int, at_most: int) -> int:
        """Examples, up to `at_most`, whose clipped sum takes no more than `memory` bytes.

        Raises ConfigError if not even one fits.
        """
        return largest_batch(self.rehearse, memory, self.device, at_most=at_most)

    def fit_kernels(self, memory: int, rows: int) -> None:
        """Keep the chosen kernels if passes of so many rows nearly fit `memory` bytes.

        Otherwise use those that keep least, and warn if these do not fit either. A kernel is replaced only by
        one that was tried: a ghost kernel where that keeps less.
        """
        if self._one_by_one:
            return
        self.rehearse(rows)  # chooses kernels, if none are chosen yet
        chosen, pass_of = self._passes.chooser, partial(self.rehearse, rows)
        least = {row.parameter: min(row.kept, key=row.kept.__getitem__) for row in chosen.rows if row.kept}
        for kernels in (chosen.kernels, chosen.kernels | least):
            self.use_kernels(kernels)
            peak = unless_out_of_memory(lambda: peak_bytes(pass_of, self.device))
            if peak is not None and peak <= room_in(memory, self.device):
                return
        logger.warning(
            "a pass of %d examples takes more than memory-mib = %d, whatever its kernels: with "
            'physical-batch-size = "auto" there are as many as fit',
            rows,
            memory >> 20,
        )

    def choose_rows(self, at_most: int) -> int:
        """The quickest number of rows, up to `at_most`, for all passes of `step`.

        With that number an example's bits do not depend on its place; UnsteadyError if there is none.
        """
        if self._one_by_one:
            return 1
        of_each = -(-self.rule.batch_size // len(self.clipped.replicas.devices))
        rows = quickest_rows(self.rehearse, of_each, at_most, self.device)
        return rows_that_pass(self.check_rows, rows, at_most)

    def check_rows(self, rows: int) -> None:
        """UnsteadyError if an example's bits depend on its place in a pass of so many rows, or on the device.

        Tried with random weights and the kernels in use, once for each combination of both.
        """
        rows, replicas = self.steady_rows(rows), self.clipped.replicas
        alone = self._one_by_one or rows == len(replicas.all) == 1
        if alone or (rows, *self.kernels.items()) in self._steady:
            return

        def run(chooser: KernelChooser, examples: Batch, passes: Passes = self._passes) -> Tensor:
            before, self._passes.chooser = self._passes.chooser, chooser
            try:
                replicas.follow()
                return self.clipped.sum_of_pass(examples, rows, passes).norms
            finally:
                self._passes.chooser = before

        elsewhere = [partial(run, passes=one) for one in replicas.copies]
        check_steady(run, self.objective.blank, self.rule.parameters, self._passes.chooser, rows, elsewhere)
        self._steady.add((rows, *self.kernels.items()))

    def steady_rows(self, rows: int) -> int:
        """The number of rows, up to `rows`, that passes take."""
        return steady(rows, most_rows(self.device))

    def fewer_rows(self, rows: int) -> int:
        """Half as many, halved again until they are steady. A single row always is, on one device."""
        while not self._is_steady(rows := self.steady_rows(rows // 2)):
            if rows == 1:
                self.clipped.replicas = Replicas(self._passes, ())
                break
        return rows

    def _is_steady(self, rows: int) -> bool:
        """Whether an example's bits do not depend on its place, and there is enough memory to see that."""
        with suppress(UnsteadyError):
            return bool(unless_out_of_memory(partial(_passes, self.check_rows, rows)))
        return False


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

    def best(most: int) -> int:
        return best_rows(seconds, expected_batch_size, most, most_rows(device))

    return retreating(best, at_most)


def rows_that_pass(check: Callable[[int], None], rows: int, at_most: int) -> int:
    """`rows`, or another number up to `at_most`, for which `check` raises no UnsteadyError.

    If all numbers that memory allows raise it, the error of `rows` is raised. If memory does not allow `rows`
    itself, `rows` is returned: the caller must check what fits.
    """
    first: UnsteadyError | None = None
    for number in (rows, *instead_of(rows, at_most)):
        try:
            if unless_out_of_memory(partial(_passes, check, number)) or first is None:
                return number
        except UnsteadyError as error:
            first = first or error
    assert first is not None  # the error of `rows`
    raise first


def _passes(check: Callable[[int], None], rows: int) -> bool:
    check(rows)
    return True
