"""The clipped sum of a pass, on any device. An example that raises adds nothing; all others still count."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.kernel_choice.memory import is_the_machines
from fl_dp.engine.one_by_one import OneByOneSum
from fl_dp.errors import ENDS, words_of
from fl_dp.training.objective import Batch
from fl_dp.training.passes import Passes
from fl_dp.training.recorder import Recorder, clipped_rows
from fl_dp.training.replicas import Replicas
from fl_dp.training.rows import filled
from fl_dp.training.step import DpSgd, nothing

logger = logging.getLogger("fl_dp")

Result = TypeVar("Result")


class ClippedPasses:
    """Clipped sums of a model's passes.

    first: passes of the model that is trained. more_devices: where copies of it take turns
    with it. recorder: records passes, if they are worth it.
    """

    def __init__(
        self,
        rule: DpSgd,
        first: Passes,
        more_devices: Sequence[torch.device] = (),
        recorder: Recorder | None = None,
    ) -> None:
        self.rule, self.first, self._recorder = rule, first, recorder
        self.replicas = Replicas(first, more_devices)

    def sum_of_pass(
        self, batch: Batch, rows: int, passes: Passes | None = None, counted: Tensor | None = None
    ) -> ClippedSum:
        """The clipped sum of a batch at the model's weights, in one pass.

        passes: of a copy that has these weights; its sum is moved to the first device. rows: of the pass,
        at least the number of examples. counted: (n,) booleans, for examples that add something; None for
        all. It raises if one example may spoil the others, see `clipped_grad_sum`.
        """
        passes = passes or self.first
        count = len(batch[0])
        ignored = torch.arange(rows, device=passes.device) >= count
        if counted is not None:
            ignored[:count] = ~counted.to(passes.device)
        whole = (*filled(rows, batch, passes.device), ignored)
        if self._recorder:
            clipped = self._recorder.clipped(self.rule, passes, whole)
        else:
            clipped = clipped_rows(self.rule, passes, whole)
        norms = clipped.norms[:count]
        if counted is not None:
            norms = norms[counted.to(norms.device)]
        return replace(clipped, norms=norms).on(self.first.device)

    def clipped_or_none(self, batch: Batch, rows: int, passes: Passes | None = None) -> ClippedSum:
        """As `sum_of_pass`, but an example that raises contributes nothing, and all others still count.

        Each example is then tried alone, in a pass of the same shape, so that it alone decides whether it
        counts; its error goes to the client's own log. The pass is run again, with copies of an example that
        counts in place of those that do not: all others keep their places, and so their blocks
        (docs/rounding.md). If even that raises, though no example raised alone, the sums of single examples
        count.
        """
        clip = partial(self.sum_of_pass, rows=rows, passes=passes)
        whole = self._tried(partial(clip, batch), said="examples are tried one by one")
        if whole is not None:
            return whole
        total, counted = nothing(self.rule), torch.zeros(len(batch[0]), dtype=torch.bool)
        for place, one in enumerate(_each(batch)):
            if (found := self._tried(partial(clip, one))) is not None:
                total, counted[place] = total + found, True
        if not counted.any():
            return total
        instead = torch.where(counted, torch.arange(len(counted)), counted.int().argmax())
        replaced = tuple(part[instead.to(part.device)] for part in batch)
        again = self._tried(
            partial(clip, replaced, counted=counted), said="the sums of single examples count"
        )
        return total if again is None else again

    def one_by_one(self, examples: Iterable[Batch], *, all_count: bool = False) -> ClippedSum:
        """The clipped sum of examples (1, ...), each from an ordinary backward pass of its own.

        An example that raises adds nothing, even if memory ran out: a pass of its shape was tried before the
        payment, so it is the record that needs more. With all_count its error is raised.
        """
        rule = self.rule
        total = OneByOneSum(
            rule.parameters, max_grad_norm=rule.max_grad_norm, clipping=rule.clipping, most=rule.most
        )

        def add_one(example: Batch) -> None:
            total.add(self.first.losses_of(*example))

        for example in examples:
            if all_count:
                add_one(example)
            else:
                self._tried(partial(add_one, example), _is_a_devices)
        return total.total()

    def _tried(
        self,
        compute: Callable[[], Result],
        must_raise: Callable[[BaseException], bool] = is_the_machines,
        said: str = "an example contributes nothing",
    ) -> Result | None:
        """The result. None if an example raised: that is logged, and what the example left is undone.

        must_raise: whether an error is not an example's fault; such an error is raised.
        """
        try:
            return compute()
        except BaseException as error:
            if isinstance(error, ENDS) or must_raise(error):
                raise
            logger.warning("%s: %s", said, words_of(error))
        self.replicas.as_before()
        return None


def _is_a_devices(error: BaseException) -> bool:
    return isinstance(error, torch.AcceleratorError)


def _each(batch: Batch) -> Iterator[Batch]:
    """Each example as a batch of its own."""
    return zip(*(torch.split(part, 1) for part in batch), strict=True)
