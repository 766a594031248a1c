"""Decides which passes of a model are recorded: many short ones, in which Python takes much of the time."""

import logging
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.recording import NotRecordedError, Recorded, record
from fl_dp.training.objective import Batch
from fl_dp.training.passes import Passes
from fl_dp.training.step import DpSgd, clipped_pass, nothing

logger = logging.getLogger("fl_dp")

AFTER = 15.0  # seconds of passes of one kind: recording takes 1 to 4, and saves 5 to 40 % of a pass
_PADDING = 0.2  # of the rows of a pass of random numbers
_LONGEST = 0.05  # seconds of a pass: in a longer one Python's time is negligible
# By how much a process may grow: 150 MiB for what PyTorch loads, and some passes that are held at once.
RECORDING_BYTES = 2**28

_Known = tuple[Recorded, ClippedSum]  # a recorded pass, and the sum of no examples


def clipped_rows(rule: DpSgd, passes: Passes, batch: Batch) -> ClippedSum:
    """The clipped sum of a pass, at the model's weights, with the norms of all rows.

    batch: examples, and (rows,) which rows add nothing, as in `sum_of`.
    """
    *examples, ignored = batch
    losses, kept = passes.kept(tuple(examples))
    return clipped_pass(rule, losses, kept, ignored=ignored, copy=passes.parameters)


class Recorder:
    """Records the passes of one model, for all its trainers, if their kernels are fixed.

    Use it only for code of fl_dp or PyTorch: other code might keep something from pass to pass, unseen.
    after: seconds that passes of a kind must have taken before one is recorded.
    """

    def __init__(self, after: float = AFTER) -> None:
        self._after = after
        self._seconds: dict[tuple[object, ...], float] = defaultdict(float)
        self._recorded: dict[tuple[object, ...], _Known | None] = {}
        self._newest: tuple[Passes, Mapping[str, Tensor]] | None = None

    def clipped(self, rule: DpSgd, passes: Passes, batch: Batch) -> ClippedSum:
        """The same as `clipped_rows`, to the bit."""
        if not passes.chooser.fixed:  # another pass may choose other kernels
            return clipped_rows(rule, passes, batch)
        kind = (*passes.kind, *rule.kind, *((part.shape, part.dtype) for part in batch))
        if known := self._recorded.get(kind):
            return self._replayed(known, rule, passes, batch)
        started = time.thread_time()
        clipped = clipped_rows(rule, passes, batch)
        seconds = time.thread_time() - started
        self._seconds[kind] += seconds
        if kind not in self._recorded and self._seconds[kind] >= self._after:
            worth = seconds < _LONGEST
            self._recorded[kind] = _try_to_record(rule, passes, len(batch[0])) if worth else None
        return clipped

    def _replayed(self, known: _Known, rule: DpSgd, passes: Passes, batch: Batch) -> ClippedSum:
        masks = torch.get_rng_state()
        recorded, empty = known
        norms, *sums = recorded(batch, self._state_of(passes))
        if not norms.isfinite().all():  # the pass itself leaves such examples out
            torch.set_rng_state(masks)
            return clipped_rows(rule, passes, batch)
        return replace(empty, grads=dict(zip(rule.parameters, sums, strict=True)), norms=norms)

    def _state_of(self, passes: Passes) -> Mapping[str, Tensor]:
        """Cached: collecting it takes as long as a small pass."""
        if self._newest is None or self._newest[0] is not passes:
            self._newest = passes, passes.state
        return self._newest[1]


def _try_to_record(rule: DpSgd, passes: Passes, rows: int) -> _Known | None:
    def run(batch: Batch, state: Mapping[str, Tensor]) -> list[Tensor]:
        *examples, ignored = batch
        losses, kept = passes.kept_at(tuple(examples), state)
        own = {name: state[name] for name in passes.parameters}
        clipped = clipped_pass(rule, losses, kept, ignored=ignored, all_finite=True, copy=own)
        return [clipped.norms, *clipped.grads.values()]

    def blank() -> Batch:
        return *passes.objective.blank(rows), torch.rand(rows) < _PADDING

    try:
        return record(run, blank, passes.state), nothing(rule)
    except NotRecordedError as error:
        logger.info("passes of %d rows are not recorded: %s", rows, error)
        return None
