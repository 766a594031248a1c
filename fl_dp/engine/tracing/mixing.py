"""Does another example change an example's loss? Tested on the losses themselves, by computing them again.

The autograd graph shows only what gradients pass through. `loss / loss.mean().detach()` mixes examples
without any: what an example contributes then depends on all others, and no clipping bounds that.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from fl_dp.engine.precision import full_precision
from fl_dp.engine.tracing.equal_rows import EqualRows
from fl_dp.engine.tracing.structure import map_tensors, tensors
from fl_dp.errors import ModelError, ProbeError

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


def check_no_mixing(losses_of: LossesOf, *batch: Any, thorough: bool = False) -> None:
    """Raise ProbeError with what `find_mixing` finds."""
    found = find_mixing(losses_of, *batch, thorough=thorough)
    if found is not None:
        raise ProbeError(found)


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
    PyTorch's global random state is the same in all calls of a comparison, and is restored afterwards. If
    losses draw random numbers by operators that `EqualRows` does not know, nothing is left out. A batch of
    one example shows nothing, and `losses_of` is not called.

    The words hold no values. Raises ModelError if the losses are not of shape (N,), and what `losses_of`
    raises.
    """  # noqa: E501
    size = _size(batch)
    if size < 2:
        return None
    with _kept_random_state(batch), torch.enable_grad(), full_precision(_device(batch)):
        search = _Search(losses_of, batch, size)
        return _thorough(search) if thorough else search.once(_random_part(size))


def _thorough(search: "_Search") -> str | None:
    few = search.only(min(search.size, _FEW))
    if few.repeated_differs():
        return _UNSTEADY
    for example in range(few.size):
        changed = torch.zeros(few.size, dtype=torch.bool)
        changed[example] = True
        if found := few.once(changed):
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

    def __init__(self, losses_of: LossesOf, batch: tuple[Any, ...], size: int) -> None:
        self._losses_of, self._batch, self.size = losses_of, batch, size
        self._state = _State()
        self._base: Tensor | None = None
        self._drew = False

    def only(self, size: int) -> "_Search":
        """A search on the first `size` examples."""
        return _Search(self._losses_of, _rows(self._batch, self.size, torch.arange(size)), size)

    def forget_state(self) -> None:
        """Continue with a new random state, from the system's entropy."""
        torch.manual_seed(random.SystemRandom().getrandbits(63))
        self._state, self._base = _State(), None

    def once(self, changed: Tensor) -> str | None:
        """changed: (N,) booleans, the examples that are first replaced, and then left out."""
        return self.replaced(changed) or self._left_out(changed)

    def is_random(self) -> bool:
        """Whether the losses draw numbers from torch's global generators."""
        self._losses()
        return self._drew

    def repeated_differs(self) -> bool:
        return not _same(self._losses(), self._called(self._batch), self._tolerance(_MOVED))

    def replaced(self, changed: Tensor) -> str | None:
        before = self._losses()
        after = self._called(_rows(self._batch, self.size, _copies(changed)))
        if _same(before[~changed], after[~changed], self._tolerance(_MOVED)):
            return None
        return _UNSTEADY if self.repeated_differs() else _REPLACED

    def _left_out(self, changed: Tensor) -> str | None:
        kept = (~changed).nonzero().squeeze(1)
        part = _rows(self._batch, self.size, kept)
        if not self.is_random():
            before, after = self._losses(), self._called(part, len(kept))
        else:
            with EqualRows() as mode:  # type: ignore[no-untyped-call]
                before, after = self._called(self._batch), self._called(part, len(kept))
            if mode.unknown:
                return None
        same = _same(before[kept], after, self._tolerance(_MOVED_BY_SIZE))
        return None if same else _LEFT_OUT

    def _losses(self) -> Tensor:
        if self._base is None:
            self._base = self._called(self._batch)
            self._drew = self._state.has_moved()
        return self._base

    def _called(self, batch: tuple[Any, ...], size: int | None = None) -> Tensor:
        size = self.size if size is None else size
        self._state.set()
        losses = self._losses_of(*batch)
        if not isinstance(losses, Tensor) or losses.shape != (size,):
            shape = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
            raise ModelError(
                f"losses_of: expected losses of shape (N,), one for each of {size} examples, got {shape}. "
                'Use reduction="none"; the first tensor of the batch is as long as the batch.'
            )
        return losses.detach().cpu()

    def _tolerance(self, at_least: float) -> float:
        held = [self._losses(), *(tensor for _, tensor in tensors(self._batch))]
        short = any(tensor.is_floating_point() and tensor.element_size() < 4 for tensor in held)
        return max(at_least, _MOVED_IN_16_BITS) if short else at_least


class _State:
    """The state of torch's global generators."""

    def __init__(self) -> None:
        self._cpu = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []

    def set(self) -> None:
        torch.set_rng_state(self._cpu)
        if self._cuda:
            torch.cuda.set_rng_state_all(self._cuda)

    def has_moved(self) -> bool:
        now = _State()
        pairs = zip([self._cpu, *self._cuda], [now._cpu, *now._cuda], strict=False)
        return not all(torch.equal(before, after) for before, after in pairs)


@contextmanager
def _kept_random_state(batch: Any) -> Iterator[None]:
    devices = {tensor.device for _, tensor in tensors(batch) if tensor.device.type == "cuda"}
    every = range(torch.cuda.device_count()) if devices or torch.cuda.is_available() else []
    with torch.random.fork_rng(every):
        yield


def _size(batch: Any) -> int:
    size = next((len(tensor) for _, tensor in tensors(batch) if tensor.dim()), None)
    if size is None:
        raise ModelError("losses_of was given no tensor that could hold examples.")
    return size


def _device(batch: Any) -> torch.device:
    return next(tensor.device for _, tensor in tensors(batch) if tensor.dim())


def _rows(batch: tuple[Any, ...], size: int, index: Tensor) -> tuple[Any, ...]:
    """The batch of the examples `index`, in this order."""

    def taken(tensor: Tensor) -> Tensor:
        held = tensor.dim() > 0 and len(tensor) == size
        return tensor.detach()[index.to(tensor.device)] if held else tensor

    rows: tuple[Any, ...] = map_tensors(taken, batch)
    return rows


def _random_part(size: int) -> Tensor:
    """(N,) booleans: about half of them true, at least one true, and at least one false."""
    chance = random.SystemRandom()
    part = torch.tensor([chance.random() < 0.5 for _ in range(size)])
    true, false = chance.sample(range(size), 2)
    part[true], part[false] = True, False
    return part


def _copies(changed: Tensor) -> Tensor:
    """For each example its own index, or a random other one if it is to be changed."""
    chance, size = random.SystemRandom(), len(changed)
    others = [
        (i + chance.randrange(1, size)) % size if moves else i for i, moves in enumerate(changed.tolist())
    ]
    return torch.tensor(others)


def _same(before: Tensor, after: Tensor, tolerance: float) -> bool:
    """Equal up to `tolerance` of the loss and of the mean loss; NaN and infinities in the same places."""
    if not before.numel():
        return True
    mean = float(torch.where(before.isfinite(), before, 0).abs().double().mean()) or 1.0
    return torch.allclose(before, after, rtol=tolerance, atol=tolerance * mean, equal_nan=True)
