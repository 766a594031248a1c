"""What an engine reports: epsilon, numbers of the last step, kernels, the largest batch that fits."""

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.kernel_choice.physical_batch import largest_batch, with_examples
from fl_dp.engine.kernel_choice.table import kernel_table
from fl_dp.errors import ConfigError
from fl_dp.privacy_engine.attachment import hooks_of
from fl_dp.privacy_engine.private_step import PrivateStep
from fl_dp.privacy_engine.settings import refuse_keywords
from fl_dp.privacy_engine.spent import DRAWS, PLAIN, PrivacySpent, assumed, warn_of_assumed_sampling
from fl_dp.privacy_engine.stats import NAMES
from fl_dp.training.step import nothing


class Reports(PrivateStep):
    """The read-only half of `PrivacyEngine`: it changes no weight and takes no step."""

    _planned: int | None
    _target: float | None
    _has_warned = _was_attached = False

    @property
    def steps(self) -> int:
        """Steps of this engine so far, of empty draws and of loaded states, too."""
        return self._steps.taken

    def get_privacy_spent(self, *, steps: int | None = None, **other: Any) -> PrivacySpent:
        """Cost at `target_delta` of the first `steps` steps over these weights and records, whichever engine
        of this process took them; None for all so far.

        The result also names what it assumes without a check, such as Poisson draws without a sampler. The
        first time that these are assumed, there is also an AssumedSamplingWarning. Epsilon is infinite if an
        optimizer without an engine has moved the weights. Raises ConfigError for fewer steps than other
        engines took, and for keywords of other engines.
        """
        refuse_keywords(other, "get_privacy_spent")
        self._note_buffers()
        asked = self._steps.count.steps if steps is None else steps
        entries = self._steps.count.entries(asked)
        unprotected = self._unprotected.taken
        epsilon = math.inf if unprotected else compute_epsilon(entries, self.target_delta, self.accountant)
        unseen = self._steps.unseen(asked, self._unseen())
        if plain := self._unprotected_steps():
            unseen[PLAIN] = plain
        if DRAWS in unseen and 0 < epsilon < math.inf and not self._has_warned:
            self._has_warned = True
            warn_of_assumed_sampling()
        wrong = self._wrong(asked) if steps is None else ()
        account = self._payments.in_words() if self._payments else ""
        early = self._planned if self._planned is not None and 0 < self.steps < self._planned else None
        return PrivacySpent(wrong, epsilon, self.target_delta, asked, assumed(unseen), account, early)

    def _unprotected_steps(self) -> int:
        return max(self._unprotected.taken, self._steps.count.unprotected)

    def _wrong(self, asked: int) -> tuple[str, ...]:
        """What makes the number misleading."""
        found = []
        if unprotected := self._unprotected_steps():
            found.append(
                f"NOT PRIVATE: {unprotected} steps of an optimizer without an engine have moved weights of "
                "this model. If their data were public, make the engine after them, with public_weights=True"
            )
        elif not (self._was_attached or asked):
            found.append(
                "NOTHING WAS PRIVATE: this engine was never attached. Call attach(optimizer), and "
                "optimizer.step(loss=losses)"
            )
        if self._planned is not None and self.steps > self._planned:
            found.append(
                f"MORE STEPS THAN PLANNED: {self.steps} where the noise was chosen for {self._planned}, so "
                f"epsilon is above the target {self._target:g}. Plan them with epochs="
            )
        return tuple(found)

    def get_training_stats(self) -> dict[str, float | None]:
        """Numbers about the last step, made from raw data: only the data's owner may see them.

        med_clip, max_clip, min_clip: the factors by which gradients were scaled, over examples and groups;
        0 for gradients that are not finite. non_finite: the number of those examples. signal, noise:
        lengths of the clipped sum and of the noise; snr: their ratio; noise_limit: the noise's expected
        length. None: all before the first step; the factors for an empty batch; snr and noise_limit
        without noise; signal, noise and snr with record_snr=False; all with ranks=, where
        no rank has the numbers of all.
        """
        return dict.fromkeys(NAMES) if self._stats is None else self._stats.as_dict()

    def kernel_table(self) -> None:
        """Print which kernel each parameter got, why, and what it costs.

        T: positions of an example; p, d: output and input features. ms: time of norm and weighted sum, on
        the batch on which kernels were tried; next best: the fastest of the others. KiB kept: memory that
        each example takes between its norm and the weighted sum. `kernels=` fixes kernels; with all of
        `engine.chooser.kernels` nothing is measured. Raises ConfigError before the first step.
        """
        rows = {row.parameter: row for row in self.chooser.rows}
        if not rows:
            raise ConfigError(
                "There is no kernel table before the first step: kernels are chosen in its backward pass."
            )
        print(kernel_table(rows[name] for name in self.parameters if name in rows))

    def largest_physical_batch(self, losses_of: Callable[..., Tensor], *batch: Any, memory: int) -> int:
        """How many examples, up to twice `batch_size`, a step can take at once in `memory` bytes.

            size = engine.largest_physical_batch(
                lambda x, y: F.cross_entropy(model(x), y, reduction="none"), x, y, memory=4 * 2**30
            )
            sampler = PoissonSampler(50_000, expected_batch_size=256, physical_batch_size=size)

        losses_of: gives the losses (N,) of a batch. batch: its arguments, in any structure; its examples
        are repeated, so a small batch is enough. memory: for what a step needs besides model, optimizer
        and data. A margin is kept for memory that cannot be seen; on CPUs the result is an estimate.
        Runs the model up to the clipped sum on growing batches, and leaves nothing behind but the start-up
        check and the chosen kernels. The size depends on shapes alone, unless the model's computation
        depends on values. The clipped sum is the same, up to rounding, however a logical batch is cut.
        Raises ConfigError if not even one example fits, and what a step may raise.
        """
        self._check_may_step()

        def step(size: int) -> ClippedSum:
            return nothing(self._rule) + self._clipped(losses_of(*with_examples(batch, size)))

        hooks = hooks_of(self.module, self._check.watch)  # without attach(), nothing else watches
        try:
            device = next(iter(self.parameters.values())).device
            return largest_batch(step, memory, device, at_most=2 * self.batch_size)
        finally:
            for hook in hooks:
                hook.remove()
