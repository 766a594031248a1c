"""Training with DP-SGD on one model: draw, clip, add up, add noise, step."""

import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from operator import add

import torch
from torch import Tensor, nn

from fl_dp.data.persons import Examples
from fl_dp.engine.backward import Axes
from fl_dp.engine.clipping import ClippedSum, empty_sum, sum_of
from fl_dp.engine.gradients.lengths import wide_type
from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.engine.kernel_choice.memory import is_out_of_memory, is_the_machines
from fl_dp.engine.kernel_choice.physical_batch import largest_batch
from fl_dp.engine.noise.gaussian import add_gaussian_noise, count_of, share_of_sum
from fl_dp.engine.noise.grid import noise_grid
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.engine.one_by_one import OneByOneSum
from fl_dp.engine.sampling import physical_batches, poisson_draw
from fl_dp.engine.steady_rows import check_steady
from fl_dp.engine.sum_error import most_drawn
from fl_dp.errors import ENDS, UnsteadyError
from fl_dp.records import MOST_WEIGHT, RoundPlan
from fl_dp.training.examples import examples_of
from fl_dp.training.local_algorithm import algorithm_of
from fl_dp.training.mixing_watch import MixingWatch, words_of
from fl_dp.training.objective import Batch, Objective
from fl_dp.training.optimizers import descent_of
from fl_dp.training.passes import Passes
from fl_dp.training.recorder import Recorder
from fl_dp.training.rehearsing import chooser_that_fits, quickest_rows, steady_rows
from fl_dp.training.replicas import Replicas
from fl_dp.training.rows import filled, most_rows, steady

logger = logging.getLogger("fl_dp")


class PrivateTrainer:
    """DP-SGD on one model: every step is one draw, clipped, summed and noised once.

    With `plan.one_by_one` every record has its own pass, for which neither rows nor kernels are chosen.
    chooser: from an earlier trainer of the same model, to reuse its kernels. randomness: source of the draws,
    the model's own random numbers (dropout) and the noise of all its steps, used for nothing else; None for
    the system's entropy. recorder: records the passes of all trainers of this very model.
    more_devices: take passes in turn with `device`, see `replicas.py`; none with `plan.one_by_one`.
    fits: the most examples known to fit in memory at once; halved when memory runs out.
    share: the integers that the plan's one step gave to a secure sum; empty without one.
    """

    def __init__(
        self,
        model: nn.Module,
        axes: Axes,
        plan: RoundPlan,
        objective: Objective,
        *,
        device: torch.device,
        chooser: KernelChooser | None = None,
        randomness: Randomness | None = None,
        recorder: Recorder | None = None,
        more_devices: Sequence[torch.device] = (),
    ) -> None:
        self.plan, self.device = plan, device
        self._passes = Passes(model, axes, objective, chooser or KernelChooser(), device=device)
        self._replicas = Replicas(self._passes, () if plan.one_by_one else more_devices)
        parameters = self._passes.parameters
        # raises, before a payment, if no grid is fine enough
        noise_grid(plan.max_grad_norm, plan.own_multiplier, count_of(parameters.values()))
        # A larger draw, of probability 2^-111, is cut: how far rounding moves a sum depends on this number.
        self.most = most_drawn(plan.expected_batch_size)
        self.descent = descent_of(plan, list(parameters.values()), divisor=plan.expected_batch_size)
        self.algorithm = algorithm_of(plan, parameters)
        self._watch = MixingWatch(self._passes.losses_of)
        self._steady: set[tuple[object, ...]] = set()  # the rows, with kernels, that were checked
        self._randomness = randomness or Randomness.system()
        self._recorder = recorder
        self._steps = 0
        self._step_randomness: tuple[Randomness, int, Randomness] | None = None
        self.fits = sys.maxsize
        self.share: Mapping[str, Tensor] = {}

    def draw_from(self, randomness: Randomness) -> None:
        """Let all steps, from the first one on, draw from `randomness`."""
        self._randomness, self._steps = randomness, 0

    @property
    def most_at_once(self) -> int:
        """Examples that a step may want at once; a larger Poisson draw is very unlikely."""
        return 1 if self.plan.one_by_one else 2 * self.plan.expected_batch_size

    def largest_physical_batch(self, memory: int, at_most: int) -> int:
        """Examples, up to `at_most`, whose clipped sum takes no more than `memory` bytes.

        Found with examples of random numbers, so it reveals nothing about the data. Raises ConfigError if
        not even one fits.
        """
        return largest_batch(self.rehearse, memory, self.device, at_most=at_most)

    def fit_kernels(self, memory: int, rows: int) -> None:
        """Keep the chosen kernels if passes of so many rows nearly fit `memory` bytes, on random numbers.

        Else use those that keep least, and warn if these do not fit either.
        """
        if self.plan.one_by_one:
            return
        self.rehearse(rows)  # chooses kernels, if none are chosen yet

        def rehearse(chooser: KernelChooser) -> ClippedSum:
            self._passes.chooser = chooser
            return self.rehearse(rows)

        self._passes.chooser = chooser_that_fits(self._passes.chooser, rehearse, memory, rows, self.device)

    def use_kernels(self, kernels: Mapping[str, str]) -> None:
        """Use these kernels, by parameter, and measure none."""
        self._passes.chooser = KernelChooser(fixed=kernels)

    def choose_rows(self, at_most: int) -> int:
        """The quickest number of rows, up to `at_most`, for all passes of `step`; times random examples.

        With that number an example's bits do not depend on its place; UnsteadyError if there is none such.
        """
        if self.plan.one_by_one:
            return 1
        of_each = -(-self.plan.expected_batch_size // len(self._replicas.devices))
        rows = quickest_rows(self.rehearse, of_each, at_most, self.device)
        return steady_rows(self.check_rows, rows, at_most)

    def check_rows(self, rows: int) -> None:
        """UnsteadyError if an example's bits depend on its place in a pass of so many rows, or on the device.

        Tried with random numbers, random weights and the kernels in use, once for each combination.
        """
        rows = self._steady_rows(rows)  # as in `step`
        alone = self.plan.one_by_one or rows == len(self._replicas.all) == 1
        if alone or (rows, *self.kernels.items()) in self._steady:
            return

        def run(chooser: KernelChooser, examples: Batch, passes: Passes = self._passes) -> Tensor:
            before, self._passes.chooser = self._passes.chooser, chooser
            try:
                self._replicas.follow()
                return self.sum_of_pass(examples, rows, passes).norms
            finally:
                self._passes.chooser = before

        elsewhere = [partial(run, passes=one) for one in self._replicas.copies]
        objective, chooser = self._passes.objective, self._passes.chooser
        check_steady(run, objective.blank, self._passes.parameters, chooser, rows, elsewhere)
        self._steady.add((rows, *self.kernels.items()))

    def check_losses(self) -> None:
        """ProbeError if an example moves another's loss. On random numbers, before anything is paid for."""
        self._watch.check(self._passes.objective)

    def rehearse(self, size: int) -> ClippedSum:
        """The clipped sum of `size` examples of random numbers. It chooses kernels and changes no weight."""
        if self.plan.one_by_one:
            # Two: a model whose second pass fails would leave all records but the first without a gradient.
            return self._one_by_one((self._passes.objective.blank(1) for _ in range(2)), all_count=True)
        blank = self._passes.objective.blank(size)
        self._replicas.follow()
        # all devices: one that failed later would show that a draw was large enough to need it
        sums = [self.sum_of_pass(blank, size, passes) for passes in self._replicas.all]
        return self.nothing() + sums[0]

    @property
    def kernels(self) -> Mapping[str, str]:
        """The kernels chosen in the latest batch; may be given to another chooser as `fixed`."""
        return self._passes.chooser.kernels

    def step(self, data: Examples, sample_rate: float, physical_batch_size: int) -> None:
        """One logical batch, in passes of `physical_batch_size` rows (see `rows.py`).

        An empty draw is also a step: its sum is zero, but its noise is not. Nothing in the records raises.
        """
        draw = self.draw(data, sample_rate)
        with self.masks.in_torch(*self._replicas.devices):
            clipped = self._clipped_sum(data, draw, min(physical_batch_size, self.fits))
        if self.plan.secure:
            self.share = self._share_of_sum(clipped)
            return
        noisy = add_gaussian_noise(
            clipped,
            noise_multiplier=self.plan.noise_multiplier,
            generator=self._of_step(),
        )
        self._steps += 1
        # a sum of several passes has more digits than a parameter can use
        sums = [noisy[name].to(wide_type(p.dtype)) for name, p in self._passes.parameters.items()]
        with torch.no_grad():
            corrected = self.algorithm.corrected(sums, self.plan.expected_batch_size)
        self.descent.step(corrected)
        self._bound_weights()

    def _share_of_sum(self, clipped: ClippedSum) -> Mapping[str, Tensor]:
        """What the client gives to a secure sum. It moves no weight, and is no update by itself."""
        self._steps += 1
        share, _ = share_of_sum(
            clipped,
            noise_multiplier=self.plan.noise_multiplier,
            shares=self.plan.shares,
            generator=self._randomness.child("step", self._steps - 1),
        )
        return share

    @torch.no_grad()
    def _bound_weights(self) -> None:
        """Keep the weights finite, whatever the learning rate. From noisy numbers alone: post-processing."""
        for parameter in self._passes.parameters.values():
            real = torch.view_as_real(parameter) if parameter.is_complex() else parameter
            most = min(MOST_WEIGHT, torch.finfo(real.dtype).max)
            real.nan_to_num_(0.0).clamp_(-most, most)

    def _of_step(self) -> Randomness:
        """The randomness of the next step; asked for several times a step."""
        kept = self._step_randomness
        if kept is None or kept[:2] != (self._randomness, self._steps):
            child = self._randomness.child("step", self._steps)
            self._step_randomness = kept = (self._randomness, self._steps, child)
        return kept[2]

    @property
    def masks(self) -> Randomness:
        """The source of the model's own random numbers (dropout) in the next step.

        Each slot of the batch has a mask of its own, whichever record is in it. All masks of a step are
        secret, independent and identically distributed. So one record more does not change the distribution
        of the others' masks; and given all masks, it moves the sum by C at most.
        """
        return self._of_step().child("masks")

    def draw(self, data: Examples, sample_rate: float) -> Tensor:
        """The next logical batch, as example numbers."""
        return poisson_draw(len(data), sample_rate, self._of_step().child("draw"))[: self.most]

    def examples(self, data: Examples, indices: Tensor) -> Batch:
        """The examples of the next logical batch, or part of it, that `indices` name."""
        return examples_of(data, indices, self._of_step().child("records"), self._passes.objective.views)

    def sum_of_pass(self, batch: Batch, rows: int, passes: Passes | None = None) -> ClippedSum:
        """The clipped sum of a batch at the model's weights, in one pass.

        passes: of a copy that has these weights; its sum comes to `device`, too. rows: of the pass, at least
        the number of examples. It raises if one example may spoil the others: see `clipped_grad_sum`.
        """
        passes = passes or self._passes
        whole = filled(rows, batch, passes.device)
        losses, kept = self._recorder.kept(passes, whole) if self._recorder else passes.kept(whole)
        clipped = sum_of(
            losses,
            kept,
            passes.parameters,
            len(batch[0]),
            max_grad_norm=self.plan.max_grad_norm,
            clipping=self.plan.clipping,
            most=self.most,
        )
        return clipped.on(self.device)

    def _clipped_sum(self, data: Examples, draw: Tensor, physical_batch_size: int) -> ClippedSum:
        """The clipped sum of a logical batch; when memory runs out, in physical batches half as large."""
        if self.plan.one_by_one:
            # an empty draw has no pass: torch.split would give one, with no example
            return self._one_by_one(self.examples(data, draw[i : i + 1]) for i in range(len(draw)))
        rows = self._steady_rows(physical_batch_size)
        try:
            clipped = None
            self._replicas.follow()
            for number, indices in enumerate(physical_batches(draw, rows)):
                examples = self.examples(data, indices)
                batch = self.clipped_or_none(examples, rows, self._replicas.of_pass(number))
                if self._watch.look(*examples):
                    self._passes.as_before()  # undoes what an example may have left behind
                clipped = batch if clipped is None else clipped + batch
            return clipped or self.nothing()
        except RuntimeError as error:
            if rows == 1 or not is_out_of_memory(error):
                raise
        # outside of the handler, whose traceback would keep the batch that did not fit
        self.fits = self._fewer(rows)  # depends on public numbers, and not on the secret size of the draw
        logger.warning("memory ran out: at most %d examples at once from now on", self.fits)
        return self._clipped_sum(data, draw, self.fits)

    def _fewer(self, rows: int) -> int:
        """Half as many rows, halved again until they are steady. A single row always is, on one device."""
        while not self._is_steady(rows := self._steady_rows(rows // 2)):
            if rows == 1:
                self._replicas = Replicas(self._passes, ())
                break
        return rows

    def _steady_rows(self, rows: int) -> int:
        return steady(rows, most_rows(self.device))

    def _is_steady(self, rows: int) -> bool:
        """Whether an example's bits do not depend on its place, and there is enough memory to see that."""
        try:
            self.check_rows(rows)
        except UnsteadyError:
            return False
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            return False
        return True

    def _one_by_one(self, examples: Iterable[Batch], *, all_count: bool = False) -> ClippedSum:
        """The clipped sum of examples (1, ...), each from a pass of its own.

        An example that raises adds nothing, even if memory ran out: a pass of its shape was tried before the
        payment, so it is the record that needs more. With all_count its error is raised.
        """
        plan = self.plan
        total = OneByOneSum(
            self._passes.parameters, max_grad_norm=plan.max_grad_norm, clipping=plan.clipping, most=self.most
        )
        for example in examples:
            try:
                total.add(self._passes.losses_of(*example))
            except BaseException as error:
                if all_count or isinstance(error, (*ENDS, torch.AcceleratorError)):
                    raise
                self._forget(error)
        return total.total()

    def _forget(self, error: BaseException) -> None:
        """Log that an example raised, and restore what it left behind; it contributes nothing."""
        logger.warning("an example contributes nothing: %s", words_of(error))
        self._replicas.as_before()

    def clipped_or_none(self, batch: Batch, rows: int, passes: Passes | None = None) -> ClippedSum:
        """As `sum_of_pass`, but an example that raises contributes nothing, and all others still count.

        Each example is then computed alone, in a pass of the same shape, so that it alone decides whether it
        counts. What it raised goes to the client's own log.
        """
        try:
            return self.sum_of_pass(batch, rows, passes)
        except BaseException as error:
            if isinstance(error, ENDS) or is_the_machines(error):
                raise
            logger.warning("examples are computed one by one: %s", words_of(error))
            self._replicas.as_before()
        return reduce(add, (self._alone(one, rows, passes) for one in _each(batch)), self.nothing())

    def _alone(self, example: Batch, rows: int, passes: Passes | None) -> ClippedSum:
        try:
            return self.sum_of_pass(example, rows, passes)
        except BaseException as error:
            if isinstance(error, ENDS) or is_the_machines(error):
                raise
            self._forget(error)
            return self.nothing()

    def nothing(self) -> ClippedSum:
        """The clipped sum of no examples."""
        plan = self.plan
        return empty_sum(self._passes.parameters, plan.max_grad_norm, plan.clipping, most=self.most)


def _each(batch: Batch) -> Iterator[Batch]:
    """Each example as a batch of its own."""
    return zip(*(torch.split(part, 1) for part in batch), strict=True)
