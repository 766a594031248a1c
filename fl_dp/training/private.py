"""A client's private training: the step, with all that makes it safe and fast composed around its passes."""

import logging
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from fl_dp.data.persons import Examples
from fl_dp.engine.backward import Axes
from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.engine.noise.gaussian import count_of
from fl_dp.engine.noise.grid import noise_grid
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.engine.sampling import physical_batches
from fl_dp.engine.tracing.mixing import MixingWatch
from fl_dp.records import RoundPlan
from fl_dp.training.clipped_passes import ClippedPasses
from fl_dp.training.examples import examples_of
from fl_dp.training.local_algorithm import algorithm_of
from fl_dp.training.objective import Batch, Objective
from fl_dp.training.optimizers import descent_of
from fl_dp.training.passes import Passes
from fl_dp.training.recorder import Recorder
from fl_dp.training.rehearsing import Rehearsing
from fl_dp.training.retreat import Retreat
from fl_dp.training.step import DpSgd, Noisy, added_up, descend, take_step

logger = logging.getLogger("fl_dp")

SEARCHED = 50  # passes, on average, between two that are searched for mixing; that takes as long as a pass


class PrivateTrainer(Rehearsing):
    """DP-SGD on one model: every step is one draw, clipped, summed and noised once.

    With `plan.one_by_one` every record has its own pass, for which neither rows nor kernels are chosen.
    chooser: from an earlier trainer of the same model, to reuse its kernels; if it is not `ordered`, sums are
    added as in any order. randomness: source of the draws, the model's own random numbers (dropout) and the
    noise of all its steps, used for nothing else; None for the system's entropy. recorder: records the passes
    of all trainers of this very model. more_devices: take passes in turn with `device`, see `replicas.py`;
    none with `plan.one_by_one`. share: the integers of the plan's one step for a secure sum; else empty.
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
        passes = Passes(model, axes, objective, chooser or KernelChooser(ordered=True), device=device)
        # raises, before a payment, if no grid is fine enough
        noise_grid(plan.max_grad_norm, plan.own_multiplier, count_of(passes.parameters.values()))
        rule = DpSgd(
            passes.parameters,
            plan.max_grad_norm,
            plan.clipping,
            plan.noise_multiplier,
            plan.expected_batch_size,
            plan.shares,
            ordered=passes.chooser.ordered,
        )
        clipped = ClippedPasses(rule, passes, () if plan.one_by_one else more_devices, recorder)
        super().__init__(clipped, one_by_one=plan.one_by_one)
        self.plan = plan
        self.descent = descent_of(plan, list(rule.parameters.values()), divisor=rule.batch_size)
        self.algorithm = algorithm_of(plan, rule.parameters)
        self._watch = MixingWatch(passes.losses_of, SEARCHED, _note)
        self._retreat = Retreat(self.fewer_rows)
        self.draw_from(randomness or Randomness.system())
        self.share: Noisy = {}

    @property
    def fits(self) -> int:
        """The most examples known to fit in memory at once."""
        return self._retreat.fits

    def draw_from(self, randomness: Randomness) -> None:
        """Let all steps, from the first one on, draw from `randomness`."""
        self._randomness, self._steps = randomness, -1
        self.begin_step()

    def begin_step(self) -> None:
        """Begin the next step, with a new `source`."""
        self._steps += 1
        self.source = self._randomness.child("step", self._steps)

    def step(self, data: Examples, sample_rate: float, physical_batch_size: int) -> None:
        """One logical batch, in passes of `physical_batch_size` rows (see `rows.py`)."""

        def clipped_sum(drawn: Tensor) -> ClippedSum:
            with self.masks.in_torch(*self.clipped.replicas.devices):
                return self._clipped_sum(data, drawn, physical_batch_size)

        self.declare_shapes()
        go_on = self._give if self.plan.secure else self._descend
        try:
            take_step(self.rule, self.source, len(data), sample_rate, clipped_sum, go_on)
        finally:
            self.begin_step()  # also after an error: no other step repeats these draws

    def _give(self, share: Noisy) -> None:
        """Keep what the client gives to a secure sum. It moves no weight, and is no update by itself."""
        self.share = share

    def _descend(self, noisy: Noisy) -> None:
        descend(self.rule, noisy, self.algorithm.corrected, self.descent.step)

    @property
    def masks(self) -> Randomness:
        """The source of the model's own random numbers (dropout) in the next step.

        Each slot of the batch has a mask of its own, whichever record is in it. All masks of a step are
        secret, independent and identically distributed. So one record more does not change the distribution
        of the others' masks. Given all records' masks (docs/rounding.md), it moves the sum by C at most.
        """
        return self.source.child("masks")

    def examples(self, data: Examples, indices: Tensor) -> Batch:
        """The examples of the next logical batch, or part of it, that `indices` name."""
        return examples_of(data, indices, self.source.child("records"), self.objective.views)

    def _clipped_sum(self, data: Examples, drawn: Tensor, physical_batch_size: int) -> ClippedSum:
        """The clipped sum of a logical batch. Nothing in the records raises."""
        if self.plan.one_by_one:
            # an empty draw has no pass: torch.split would give one, with no example
            alone = (self.examples(data, drawn[i : i + 1]) for i in range(len(drawn)))
            return self.clipped.one_by_one(alone)

        def in_passes_of(rows: int) -> ClippedSum:
            self.clipped.replicas.follow()
            return added_up(self.rule, self._passes_of(data, drawn, rows))

        return self._retreat.run(in_passes_of, self.steady_rows(physical_batch_size))

    def _passes_of(self, data: Examples, drawn: Tensor, rows: int) -> Iterator[ClippedSum]:
        for number, indices in enumerate(physical_batches(drawn, rows)):
            examples = self.examples(data, indices)
            clipped = self.clipped.clipped_or_none(examples, rows, self.clipped.replicas.of_pass(number))
            if self._watch.look(*examples):
                self._passes.as_before()  # undoes what an example may have left behind
            yield clipped


def _note(found: str) -> None:
    logger.warning("a batch was searched for records that move others' losses: %s", found)
