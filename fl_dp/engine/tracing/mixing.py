"""Does another example change an example's loss? Tested on the losses themselves, by computing them again.

The autograd graph shows only what gradients pass through. `loss / loss.mean().detach()` mixes examples
without any: what an example contributes then depends on all others, and no clipping bounds that.
"""

import random
import secrets
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fl_dp.engine.precision import full_precision
from fl_dp.engine.tracing.draws import RandomState, Watch, kept_random_state, seed_generators
from fl_dp.engine.tracing.harness import (
    ONE,
    Batch,
    Change,
    Outputs,
    again,
    batch_of,
    beside,
    moved,
    scale,
    taken,
)
from fl_dp.engine.tracing.structure import tensors
from fl_dp.errors import ENDS, ModelError, ProbeError, words_of

LossesOf = Callable[..., Tensor]  # a batch's arguments -> losses (N,), one for each example

# Examples of a thorough search. Two are too few: mixing may be with the next but one.
_FEW = 8
# The number of random states of a thorough search, if the losses draw random numbers. Mixing in one batch of
# twenty is then overlooked with probability 0.95^60, which is 5 %.
_STATES = 60
# How many random parts of the whole batch a thorough search changes. A loss that grows by 1 % with each
# position was overlooked in one part of a hundred: too few were left out before the examples that count.
_PARTS = 3
# How far a loss may move, relative to itself and to the mean loss. The same shapes give nearly the same
# digits; if examples are left out, kernels change. Mixing moves a loss by more: half of a batch changes.
_MOVED, _MOVED_BY_SIZE, _MOVED_IN_16_BITS = 1e-4, 0.02, 0.03

_WAY_OUT = "Each loss must be a function of its own example and the weights alone."


class MixingWatch:
    """Searches batches of a loop whose losses `losses_of` computes: one in `every`, on average.

    The system's entropy chooses them, so that no code in the losses can tell when it is watched.
    report: None: findings are raised as ProbeError, and the first batch with two examples is searched
    thoroughly. Else it gets findings and the batch's errors as text: for steps that are paid for, after which
    nothing that depends on data may end a round.
    """

    def __init__(self, losses_of: LossesOf, every: int, report: Callable[[str], None] | None = None) -> None:
        self._losses_of, self._every, self._report = losses_of, every, report
        self._is_new = report is None

    def look(self, *batch: Any) -> bool:
        """Search this batch, if it is its turn; returns whether it was."""
        if not self._is_new and secrets.randbelow(self._every):
            return False
        try:
            found = find_mixing(self._losses_of, *batch, thorough=self._is_new)
        except BaseException as error:
            if self._report is None or isinstance(error, (*ENDS, torch.AcceleratorError)):
                raise
            found = f"it raised {type(error).__name__}: {words_of(error)}"
        if found and self._report:
            self._report(found)
        elif found:
            raise ProbeError(found)
        self._is_new = self._is_new and batch_of(batch, {}).size < 2
        return True


def find_mixing(losses_of: LossesOf, *batch: Any, thorough: bool = False) -> str | None:
    """What shows that an example's loss depends on another example, in words; None if nothing does.

    losses_of: gives the losses (N,) of a batch. batch: its arguments, in any structure, real or synthetic;
    the first tensor that has a dimension is as long as the batch, and every tensor of that length holds
    examples. Values come from the batch itself, so that they are always valid.

    | | a search takes | finds |
    |---|---|---|
    | plain | 3 calls, 4 with random numbers | a random half of the examples becomes copies of others, and a random part is left out; do the losses of the rest move? |
    | thorough | about 20 calls on 8 examples at most, 120 more with random numbers, and 7 on the batch | the same for each example in turn, under many random states; three random parts of the batch; and whether the same batch gives the same losses again |

    The system's entropy chooses which examples are changed, so that a model cannot know when it is watched.
    PyTorch's global random state is the same in all calls of a comparison, and is restored afterwards. A batch
    of one example shows nothing, and `losses_of` is not called.

    The words hold no values. Raises ModelError if the losses are not of shape (N,), ProbeError if they draw
    other random numbers than dropout's, and what `losses_of` raises.
    """  # noqa: E501
    examples = batch_of(batch, {})
    if examples.size < 2:
        return None
    with kept_random_state(), torch.enable_grad(), full_precision(examples.device):
        search = _Search(losses_of, examples)
        return _thorough(search) if thorough else search.once(_random_part(examples.size))


def _thorough(search: "_Search") -> str | None:
    few = search.only(min(search.size, _FEW))
    if few.repeated_differs():
        return _UNSTEADY
    for example in range(few.size):
        if found := few.once([example]):
            return found
    if few.is_random():
        for _ in range(_STATES):
            few.forget_state()
            if found := few.replaced(_random_part(few.size)):
                return found
    parts = (_random_part(search.size) for _ in range(_PARTS))
    return next(filter(None, map(search.once, parts)), None)


_UNSTEADY = (
    "Two calls on the same batch gave different losses: they depend on earlier batches, which no noise "
    f"protects, or draw random numbers elsewhere than from torch's global generator. {_WAY_OUT}"
)
_REPLACED = f"Another example's loss moved when examples were replaced by others. {_WAY_OUT}"
_LEFT_OUT = (
    "An example's loss moved when other examples were left out: it depends on the batch's size or on its "
    f"position. {_WAY_OUT}"
)


class _Search:
    """Comparisons on one batch, from one random state."""

    def __init__(self, losses_of: LossesOf, batch: Batch) -> None:
        self._losses_of, self._batch, self.size = losses_of, batch, batch.size
        self._state = RandomState()
        self._base: Outputs | None = None
        self._kept: Outputs | None = None  # where masks drop nothing
        self._drew = False

    def only(self, size: int) -> "_Search":
        """A search on the first `size` examples."""
        return _Search(self._losses_of, self._batch.rows(range(size)))

    def forget_state(self) -> None:
        """Continue with a new random state, from the system's entropy."""
        seed_generators(random.SystemRandom().getrandbits(63))
        self._state, self._base, self._kept = RandomState(), None, None

    def once(self, changed: list[int]) -> str | None:
        """changed: the examples that are first replaced, and then left out."""
        return self.replaced(changed) or self._left_out(changed)

    def is_random(self) -> bool:
        """Whether the losses draw numbers from torch's global generators."""
        self._losses()
        return self._drew

    def repeated_differs(self) -> bool:
        return self._moved(again(self._batch), _MOVED)

    def replaced(self, changed: list[int]) -> str | None:
        copies = self._batch.rows(_copies(self.size, changed))
        if not self._moved(beside(self._batch, copies, changed), _MOVED):
            return None
        return _UNSTEADY if self.repeated_differs() else _REPLACED

    def _left_out(self, changed: list[int]) -> str | None:
        change = taken(self._batch, [row for row in range(self.size) if row not in set(changed)])
        if not self.is_random():
            return _LEFT_OUT if self._moved(change, _MOVED_BY_SIZE) else None
        with Watch(None):
            self._kept = self._kept or self._called(self._batch)
            return _LEFT_OUT if self._moved(change, _MOVED_BY_SIZE, self._kept) else None

    def _losses(self) -> Outputs:
        if self._base is None:
            self._base = self._called(self._batch)
            self._drew = self._state.has_moved()
        return self._base

    def _moved(self, change: Change, at_least: float, before: Outputs | None = None) -> bool:
        """Whether a loss moved by more than the tolerance, which is `at_least` so much."""
        before = before or self._losses()
        held = [*before.values(), *(tensor for _, tensor in tensors(self._batch.args))]
        short = any(tensor.is_floating_point() and tensor.element_size() < 4 for tensor in held)
        tolerance = max(at_least, _MOVED_IN_16_BITS) if short else at_least
        after = self._called(change.batch)
        return bool(moved(before, after, change, _near(tolerance), self.size, frozenset({ONE})))

    def _called(self, batch: Batch) -> Outputs:
        self._state.set()
        losses = self._losses_of(*batch.args)
        if not isinstance(losses, Tensor) or losses.shape != (batch.size,):
            shape = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
            raise ModelError(
                f"losses_of: expected losses of shape (N,), one for each of {batch.size} examples, got "
                f'{shape}. Use reduction="none"; the first tensor of the batch is as long as the batch.'
            )
        return {ONE: losses.detach().cpu()}


def _random_part(size: int) -> list[int]:
    """About half of the examples, at least one, and not all."""
    chance = random.SystemRandom()
    true, false = chance.sample(range(size), 2)
    return [i for i in range(size) if i == true or (i != false and chance.random() < 0.5)]


def _copies(size: int, changed: list[int]) -> list[int]:
    """For each example its own index, or a random other one if it is to be changed."""
    chance = random.SystemRandom()
    moves = set(changed)
    return [(i + chance.randrange(1, size)) % size if i in moves else i for i in range(size)]


def _near(tolerance: float) -> Callable[[Tensor, Tensor, Tensor], bool]:
    """Equal up to `tolerance` of the loss and of the mean loss; NaN and infinities in the same places."""

    def near(before: Tensor, after: Tensor, _: Tensor) -> bool:
        mean = scale(before.double(), torch.mean) if before.numel() else 1.0
        return torch.allclose(before, after, rtol=tolerance, atol=tolerance * mean, equal_nan=True)

    return near
