"""Decides which passes of a model are recorded: many short ones, in which Python takes much of the time."""

import logging
import time
from collections import defaultdict
from collections.abc import Mapping

from torch import Tensor

from fl_dp.engine.recording import NotRecordedError, Passed, Recorded, record
from fl_dp.training.objective import Batch
from fl_dp.training.passes import Passes

logger = logging.getLogger("fl_dp")

AFTER = 15.0  # seconds of passes of one kind: recording takes 1 to 4, and saves 5 to 30 % of a pass
_LONGEST = 0.05  # seconds of a pass: in a longer one Python's time is negligible
# By how much a process may grow: 150 MiB for what PyTorch loads, and some passes that are held at once.
RECORDING_BYTES = 2**28


class Recorder:
    """Records the passes of one model, for all its trainers, if their kernels are fixed.

    Use it only for code of fl_dp or PyTorch: other code might keep something from pass to pass, unseen.
    after: seconds that passes of a kind must have taken before one is recorded.
    """

    def __init__(self, after: float = AFTER) -> None:
        self._after = after
        self._seconds: dict[tuple[object, ...], float] = defaultdict(float)
        self._recorded: dict[tuple[object, ...], Recorded | None] = {}
        self._newest: tuple[Passes, Mapping[str, Tensor]] | None = None

    def kept(self, passes: Passes, batch: Batch) -> Passed:
        """The same as `Passes.kept`, to the bit."""
        if not passes.chooser.fixed:  # another pass may choose other kernels
            return passes.kept(batch)
        kind = (*passes.kind, *((part.shape, part.dtype) for part in batch))
        if recorded := self._recorded.get(kind):
            return recorded(batch, self._state_of(passes))
        started = time.thread_time()
        kept = passes.kept(batch)
        seconds = time.thread_time() - started
        self._seconds[kind] += seconds
        if kind not in self._recorded and self._seconds[kind] >= self._after:
            self._recorded[kind] = _try_to_record(passes, len(batch[0])) if seconds < _LONGEST else None
        return kept

    def _state_of(self, passes: Passes) -> Mapping[str, Tensor]:
        """Cached: collecting it takes as long as a small pass."""
        if self._newest is None or self._newest[0] is not passes:
            self._newest = passes, passes.state
        return self._newest[1]


def _try_to_record(passes: Passes, rows: int) -> Recorded | None:
    try:
        return record(passes.kept_at, lambda: passes.objective.blank(rows), passes.state)
    except NotRecordedError as error:
        logger.info("passes of %d rows are not recorded: %s", rows, error)
        return None
