"""Do the last bits of what an example adds depend on its place in a pass, or on its neighbours there?

The theorem on the clipped sum (`sum_error.py`) takes each example's vector as a function of the example, the
weights and its masks. Arithmetic need not be like that: matrix products may add in another order for another
row, and other code computes elementwise functions at the end of a tensor. Under weights that make terms
cancel, a last bit becomes a gradient of full length.

So passes are compared bit by bit, the very ones that will run: same rows, same kernels. The same examples
come in another order, then half of them beside others. Each must give the same numbers again: for each
parameter, the squared length and all that its weighted sum is made of (the gradient, or factors of outer
products); and the length over all parameters. A factor follows from these by operations that IEEE 754 rounds
the same way everywhere. Losses are not compared: they add nothing.

No weights that enlarge a difference have to be found for this: any difference of bits counts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from fl_dp.engine.gradients.example_chunks import example_chunks
from fl_dp.engine.gradients.kept import Kept
from fl_dp.engine.gradients.layouts import GradientLayout
from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.engine.tracing.draws import LEVELS, RandomState, Watch, kept_random_state, seed_generators
from fl_dp.engine.tracing.harness import (
    ONE,
    Batch,
    Change,
    Outputs,
    again,
    all_moved,
    reordered,
    same_bits,
    taken,
)
from fl_dp.errors import UnsteadyError

Examples = tuple[Tensor, ...]
Run = Callable[[KernelChooser, Examples], Tensor]

_SEED = 0x57EAD1E5
_ALL = "all parameters together"
LONG, HUGE = 1e3, 1e20  # factors for inputs of every fourth example, and of neighbours: squares overflow
# Sets of weights, with three passes each. Few numbers may be at the end of a tensor, and few of these have
# two results (of a sigmoid's one in 27). Small models have few numbers to show it, but quick passes.
_MOST_SETS, _FEWEST_SETS, _NUMBERS = 16, 2, 2**22


def check_steady(
    run: Run,
    blank: Callable[[int], Examples],
    parameters: Mapping[str, Tensor],
    chooser: KernelChooser,
    rows: int,
    elsewhere: Sequence[Run] = (),
) -> None:
    """UnsteadyError if an example's bits depend on its place in a pass of so many rows.

    elsewhere: the same passes on other devices, whose bits must be the same.

    run: a pass with these kernels, at the parameters' values; returns the lengths (rows,) of all gradients.
    blank: gives that many random examples. Meanwhile the parameters hold random numbers; afterwards they,
    and torch's global random state, are as before. Every call tries the same.
    """
    size = rows * sum(parameter.numel() for parameter in parameters.values())
    sets = max(_FEWEST_SETS, min(_MOST_SETS, _NUMBERS // max(1, size)))
    with kept_random_state(), _restored(parameters):
        for number in range(sets):
            seed_generators(_SEED + number)
            write_weights(parameters, cancelling=number % 2 == 1)
            _compare(run, blank, chooser, rows, elsewhere)


@contextmanager
def _restored(parameters: Mapping[str, Tensor]) -> Iterator[None]:
    before = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    try:
        yield
    finally:
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(before[name])


@torch.no_grad()
def write_weights(parameters: Mapping[str, Tensor], *, cancelling: bool) -> None:
    """Normal numbers; in matrices over the root of their inputs, with `cancelling` nearly a, -a, a, ..."""
    for parameter in parameters.values():
        drawn = torch.randn(parameter.shape, dtype=parameter.dtype)
        if drawn.dim() > 1:
            rows = drawn.flatten(1)
            if cancelling:
                signs = 1.0 - 2.0 * (torch.arange(rows.shape[1]) % 2)
                rows = rows[:, :1] * signs.to(rows.dtype) + 1e-3 * rows
            drawn = (rows / max(1, rows.shape[1]) ** 0.5).view_as(drawn)
        parameter.copy_(drawn)


def _compare(
    run: Run, blank: Callable[[int], Examples], chooser: KernelChooser, rows: int, elsewhere: Sequence[Run]
) -> None:
    """Three passes: some examples, the same in another order, half of them in a third one beside others."""
    examples, others = (Batch(scaled(blank(rows), times), {}, rows) for times in (LONG, HUGE))
    orders = torch.randperm(rows).tolist(), torch.randperm(rows).tolist()
    mixed, stays = [one.clone() for one in others.args], range(0, rows, 2)
    for into, one in zip(mixed, examples.args, strict=True):
        into[::2] = one[::2]
    halved = Change(Batch(tuple(mixed), {}, rows), stays, stays)
    first = _noted(run, chooser, examples)
    for change in (taken(examples, orders[0]), reordered(halved, orders[1])):
        if found := _differing(first, _noted(run, chooser, change.batch), change):
            raise UnsteadyError(_words(found, chooser, rows))
    for other_device in elsewhere:
        if found := _differing(first, _noted(other_device, chooser, examples), again(examples)):
            raise UnsteadyError(
                f"The gradient of {found[0]} has other last bits on another device. One more record would "
                "move later ones to other devices, where they would add something else. Name one device."
            )


def scaled(batch: Examples, times: float) -> Examples:
    """The batch, with the inputs of every fourth example multiplied by `times` if they are numbers."""
    inputs, *rest = batch
    if inputs.is_floating_point():
        inputs[1::4] *= times
    return inputs, *rest


def _words(found: list[str], chooser: KernelChooser, rows: int) -> str:
    name, *others = found
    which = f"{name} (kernel {chooser.kernels[name]!r})" if name in chooser.kernels else name
    more = f" and of {len(others)} more parameters" if others else ""
    return (
        f"The gradient of {which}{more} depends in its last bits on an example's place in a pass of {rows} "
        "rows, or on its neighbours: this machine's arithmetic does not treat all rows alike, and one more "
        'record would change what others add. Ask for arithmetic = "proven"; or try another '
        "physical-batch-size (64 or 128 fill whole vectors), one thread, or other functions in the model "
        "(ReLU, Tanh or GELU for SiLU, ELU, Sigmoid or Softplus)."
    )


def _differing(first: Outputs, found: Outputs, change: Change) -> list[str]:
    """The parameters for which the change moved a bit."""
    every = all_moved(first, found, change, same_bits, change.batch.size, frozenset(first))
    names = [one.path for one in every]
    if ONE in names:  # of other examples the gradient is finite
        return [_ALL]
    return [name for name in names if name != _ALL] or names


def _noted(run: Run, chooser: KernelChooser, batch: Batch) -> Outputs:
    """What a pass gives of each example: whether its gradient is finite; for each parameter, digests of all
    that is kept, and one of the length of all gradients. One that is not finite adds nothing, whatever it is.

    If the pass draws random numbers, it is run again. Masks belong to places: examples can be compared only
    if all places draw the same (`Watch`).
    """
    noting, before = _Noting(chooser), RandomState()
    lengths = run(noting, batch.args)
    if before.has_moved():
        noting = _Noting(chooser)
        with Watch(_SEED, LEVELS[0]):
            lengths = run(noting, batch.args)
    finite = lengths.isfinite()[:, None]
    found = {ONE: finite, **noting.digests, _ALL: digests(lengths)[:, None]}
    return {path: one.masked_fill(~finite.to(one.device), 0).cpu() for path, one in found.items()}


class _Noting(KernelChooser):
    """Another chooser's kernels, with digests (rows, ...) of all that they keep of each example."""

    def __init__(self, chooser: KernelChooser) -> None:
        super().__init__()
        self._chooser = chooser
        self.digests: dict[str, Tensor] = {}

    def keep(self, name: str, layout: GradientLayout) -> Kept:
        """As the other chooser does, and note digests."""
        kept = self._chooser.keep(name, layout)
        self.digests[name] = torch.stack([digests(part) for part in kept.tensors], 1)
        return kept


@torch.no_grad()
def digests(rows: Tensor) -> Tensor:
    """(n,) int64 of tensors (n, ...), each by itself: equal if all its numbers are; 0 and -0 count as equal.

    Sums of products of integers: exact, so that no place matters here. Two tensors that differ in a few
    numbers share a digest with probability 2^-60.
    """
    found = torch.zeros(len(rows), dtype=torch.int64, device=rows.device)
    factors: Tensor | None = None
    for part in example_chunks(len(rows), 3 * rows[:1].numel(), torch.int64, rows.device):
        bits = _bits(rows[part])
        factors = _factors(bits.shape[1], rows.device) if factors is None else factors
        found[part] = (bits * factors).sum(1)
    return found


def _bits(rows: Tensor) -> Tensor:
    """The numbers' bits as integers, (n, numbers) int64."""
    if rows.is_complex():
        rows = torch.view_as_real(rows.resolve_conj())
    rows = rows.resolve_neg().reshape(len(rows), -1)
    if rows.is_floating_point():
        whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[rows.element_size()]
        rows = (rows + 0.0).view(whole)  # -0 becomes 0
    return rows.to(torch.int64)


def _factors(count: int, device: torch.device) -> Tensor:
    """Odd pseudorandom integers (splitmix64)."""
    mixed = torch.arange(1, count + 1, device=device) * -7046029254386353131
    mixed = (mixed ^ (mixed >> 30)) * -4658895280553007687
    return (mixed ^ (mixed >> 27)) | 1
