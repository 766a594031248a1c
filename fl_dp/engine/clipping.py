"""The sum over examples of clipped gradients, with the bound on what one example can add to it."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fl_dp.engine.backward import Axes, keep_gradients
from fl_dp.engine.bounds import Bounds, Group, grouped, sensitivity
from fl_dp.engine.clip_functions import Abadi, ClipFunction, clip_function
from fl_dp.engine.gradients.kept import Kept, host_reads
from fl_dp.engine.gradients.lengths import in_type, wide_type
from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.engine.precision import full_precision
from fl_dp.engine.rounding import add_to, long_type, round_up
from fl_dp.engine.sum_error import MOST_IN_FLOAT32, ORDERED_ERROR, additions, sum_error
from fl_dp.errors import ConfigError, ModelError

ABADI = Abadi()
_by_name = functools.cache(clip_function)


@dataclass(frozen=True, slots=True)
class ClippedSum:
    """Sum of per-example gradients, each scaled to length `sensitivity` at most.

    Adding or removing one example, whatever it holds, moves all of `grads` together by at most `sensitivity`
    in Euclidean norm, plus a part `error` of it for rounding.

    Attributes:
        grads: Parameter name -> sum, in the parameter's shape, in float32 at least; a sum of several in
            float64.
        sensitivity: The most that one example moves the sum.
        norms: (N,) lengths before clipping, or (N, G) with G bounds; NaN or inf if a gradient is not finite.
            They are raw data: never send them.
        clipping: The function that gave the factors.
        most: The largest number of examples that the logical batch may hold, a public number.
        ordered: Whether the examples were in an order that is uniformly random and secret.

    | example's gradient | contribution with "abadi" |
    |---|---|
    | zero | zero |
    | no longer than C | itself |
    | longer than C | scaled to C |
    | NaN or inf somewhere | zero, for all bounds |

    Example:
        >>> import fl_dp, torch
        >>> one = fl_dp.empty_sum({"weight": torch.zeros(2)}, max_grad_norm=1.0)
        >>> (one + one).sensitivity
        1.0
    """

    grads: Mapping[str, Tensor]
    sensitivity: float
    norms: Tensor
    clipping: ClipFunction = ABADI
    most: int = MOST_IN_FLOAT32
    ordered: bool = False

    @property
    def error(self) -> float:
        """What rounding may add to `sensitivity`, relative to it."""
        return ORDERED_ERROR if self.ordered else sum_error(self.most)

    def __add__(self, other: "ClippedSum") -> "ClippedSum":
        """Sum over both batches. No example may be in both: then the bound stays the same."""
        if self._kind() != other._kind():
            raise ConfigError(f"Cannot add clipped sums of {self._kind()} and {other._kind()}.")
        grads = {name: grad.to(long_type(grad), copy=True) for name, grad in self.grads.items()}
        for name, grad in grads.items():
            add_to(grad, other.grads[name])
        return replace(self, grads=grads, norms=torch.cat([self.norms, other.norms]))

    def on(self, device: torch.device) -> "ClippedSum":
        """The same numbers on `device`; itself if it is there."""
        if self.norms.device == device:
            return self
        grads = {name: grad.to(device, non_blocking=True) for name, grad in self.grads.items()}
        return replace(self, grads=grads, norms=self.norms.to(device, non_blocking=True))

    def _kind(self) -> str:
        num_groups = 1 if self.norms.dim() == 1 else self.norms.shape[1]
        return (
            f"sensitivity {self.sensitivity} over {num_groups} groups by {self.clipping}, of at most "
            f"{self.most} examples{' in a secret order' if self.ordered else ''}"
        )

    @property
    def num_non_finite(self) -> int:
        """Number of examples that contributed zero because of NaN or inf; raw data, like `norms`."""
        return len(self.norms) - int(_finite(self.norms).sum())


def empty_sum(
    parameters: Mapping[str, Tensor],
    max_grad_norm: Bounds,
    clipping: ClipFunction | str = "abadi",
    *,
    most: int = MOST_IN_FLOAT32,
    ordered: bool = False,
) -> ClippedSum:
    """The clipped sum over no examples: an empty Poisson draw is still a step.

    Args:
        parameters: Name -> trainable leaf.
        max_grad_norm: As in `clipped_grad_sum`, like `clipping` and `most`.
        clipping: As there.
        most: As there.
        ordered: As there.

    Returns:
        Zeros, to which sums of the same bounds can be added.

    Raises:
        ConfigError: A bound that bounds nothing or a parameter without one.

    Example:
        >>> import fl_dp, torch
        >>> fl_dp.empty_sum({"weight": torch.ones(2)}, max_grad_norm=1.0).grads["weight"]
        tensor([0., 0.])
    """
    clipping = checked_clipping(clipping)
    groups = checked_groups(max_grad_norm, parameters, clipping)
    grads = {name: _zeros(parameter) for name, parameter in parameters.items()}
    shape = (0,) if len(groups) == 1 else (0, len(groups))
    norms = next(iter(grads.values()), torch.zeros(0)).new_zeros(shape)
    return ClippedSum(grads, sensitivity(groups), norms, clipping, most, ordered)


@torch.no_grad()
def clipped_grad_sum(
    losses: Tensor,
    parameters: Mapping[str, Tensor],
    *,
    max_grad_norm: Bounds,
    clipping: ClipFunction | str = "abadi",
    axes: Axes | None = None,
    chooser: KernelChooser | None = None,
    most: int = MOST_IN_FLOAT32,
    ordered: bool = False,
) -> ClippedSum:
    """Clip each example's gradient to `max_grad_norm` and sum, in one backward pass.

    Args:
        losses: (N,), each example's own loss (reduction="none"). Their graph is freed.
        parameters: Name -> trainable leaf.
        max_grad_norm: One bound C on the length over all of them (Abadi et al. 2016), or bounds C_g for
            groups by module name (see `grouped`). With groups the sensitivity is sqrt(sum of C_g^2);
            `split_bound` makes equal bounds.
        clipping: The function, by name or made by `clip_function`.
        axes: From `probe`. With None the caller guarantees that the batch is the leading dimension of every
            layer, and that no example influences another's loss.
        chooser: Remembers measured kernels from call to call; None for a new one. `ordered` as here.
        most: The largest number of examples of the whole logical batch, see `most_drawn`; the larger it is,
            the less is added in float32.
        ordered: Whether the logical batch is in an order that is uniformly random, secret and new for each
            step, and all passes have one shape, which no record decides. Then more is added in float32, which
            is faster; and an example whose terms cancel is scaled down more (`least_square`).

    Returns:
        The sum, to which noise is added once.

    Raises:
        NoRuleError: An operator without a rule.
        ModelError: Losses of another shape.
        ConfigError: A bound that bounds nothing, a parameter without one, or a chooser for another order.

    Example:
        >>> import fl_dp, torch
        >>> model = torch.nn.Linear(4, 2)
        >>> losses = model(torch.randn(8, 4)).square().sum(1)
        >>> clipped = fl_dp.clipped_grad_sum(losses, dict(model.named_parameters()), max_grad_norm=1.0)
        >>> clipped.norms.shape, clipped.grads["weight"].shape
        (torch.Size([8]), torch.Size([2, 4]))
    """
    check_losses(losses)
    checked_groups(max_grad_norm, parameters, checked_clipping(clipping))  # before the pass
    chooser = chooser or KernelChooser()
    if chooser.ordered != ordered:
        raise ConfigError(
            f"ordered={ordered}: expected chooser=KernelChooser(ordered={ordered}), and the same one in all "
            "passes: it checks that they have one shape."
        )
    kept = keep_gradients(losses, parameters, axes, chooser) if len(losses) else {}
    return sum_of(
        losses,
        kept,
        parameters,
        max_grad_norm=max_grad_norm,
        clipping=clipping,
        most=most,
        ordered=ordered,
    )


@torch.no_grad()
def sum_of(
    losses: Tensor,
    kept: dict[str, Kept],
    parameters: Mapping[str, Tensor],
    *,
    max_grad_norm: Bounds,
    clipping: ClipFunction | str = "abadi",
    most: int = MOST_IN_FLOAT32,
    ordered: bool = False,
    ignored: Tensor | None = None,
    all_finite: bool = False,
) -> ClippedSum:
    """`clipped_grad_sum` from what a pass has kept; `kept` is empty afterwards. Raises the same errors.

    ignored: (N,) booleans, for losses that add nothing, such as those of padding; None if there are none.
    They have norms like all others. all_finite: norms are not checked. The caller must check that all are
    finite; otherwise the sum may hold NaN.
    """
    clipping = checked_clipping(clipping)
    groups = checked_groups(max_grad_norm, parameters, clipping)
    if len(losses) == 0:
        return empty_sum(parameters, max_grad_norm, clipping, most=most, ordered=ordered)
    factors, norms = clip_factors(kept, parameters, losses, groups, clipping, ordered=ordered)
    for factor in {id(one): one for one in factors.values()}.values():  # a group's parameters share one
        if ignored is not None:
            factor.masked_fill_(ignored, 0)
    left_out = None if all_finite else _not_finite(norms)
    grads: dict[str, Tensor] = {}
    with full_precision(losses.device):
        for name, factor in factors.items():
            part = kept.pop(name)  # frees each parameter's gradients after their use
            adding = additions(part.positions, parameters[name].numel(), most, ordered=ordered)
            grads[name] = _like(parameters[name], part.weighted_sum(factor, adding, left_out=left_out))
    return ClippedSum(_complete(grads, parameters), sensitivity(groups), norms, clipping, most, ordered)


@torch.no_grad()
def clip_factors(
    kept: Mapping[str, Kept],
    parameters: Mapping[str, Tensor],
    losses: Tensor,
    groups: Sequence[Group],
    clipping: ClipFunction,
    *,
    ordered: bool = False,
) -> tuple[dict[str, Tensor], Tensor]:
    """The (N,) factors of each parameter's per-example gradients, and `ClippedSum.norms`.

    Only for the parameters in `kept`, on which the losses (N,) depend. ordered: no length is then less than
    terms allow (`least_square`).
    """
    squares = _squares(kept, groups, losses, ordered=ordered)
    factors: dict[str, Tensor] = {}
    for group, column in zip(groups, squares, strict=True):
        used = [name for name in group.parameters if name in kept]
        size = sum(parameters[name].numel() for name in used)
        column.sqrt_()
        factors |= dict.fromkeys(used, clipping.factors(round_up(column, size, len(used)), group.bound))
    return factors, squares[0] if len(squares) == 1 else torch.stack(squares, 1)


def check_losses(losses: Tensor) -> None:
    """ModelError unless there is one loss for each example, and the losses have gradients."""
    if not isinstance(losses, Tensor):
        raise ModelError(
            f"Expected a tensor of losses (N,), got {type(losses).__name__}: call the model once with all "
            'examples, and pass the losses of reduction="none".'
        )
    if losses.dim() != 1:
        more = "; losses.flatten(1).mean(1) gives one for each example" if losses.dim() > 1 else ""
        raise ModelError(
            f'Expected losses of shape (N,), one per example (reduction="none"), got '
            f"{tuple(losses.shape)}{more}."
        )
    if len(losses) and not losses.requires_grad:
        raise ModelError(
            "The losses have no gradients: they were computed under torch.no_grad(), or were detached."
        )


def _not_finite(norms: Tensor) -> Tensor | None:
    """(N,) whether an example's gradient is not finite somewhere; None if the host has seen that all are.

    If the sum of all lengths is finite, so are all gradients; so the sum is tried first. A GPU is not asked:
    the host would first wait for all queued work.
    """
    if host_reads(norms) and (norms.sum().isfinite() or _finite(norms).all()):
        return None
    return ~_finite(norms)


def _like(parameter: Tensor, total: Tensor) -> Tensor:
    return total if total.shape == parameter.shape else total.view_as(parameter)


def _complete(grads: Mapping[str, Tensor], parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """In the parameters' order, with zeros for those on which the losses do not depend."""
    return {name: grads[name] if name in grads else _zeros(p) for name, p in parameters.items()}


def _squares(
    kept: Mapping[str, Kept], groups: Sequence[Group], losses: Tensor, *, ordered: bool
) -> list[Tensor]:
    """(N,) for each group: squared gradient lengths over its parameters, in new memory.

    In float64 only if all parts are: `round_up` adds the rounding error of its argument's type, which must be
    the type of the least precise part. The parts are added one after the other: PyTorch's sum over stacked
    parts adds the last examples of 40 in another order than the first (`tests/engine/test_clipping.py`).
    """
    types = {part.norm_squared.dtype for part in kept.values()}
    dtype = torch.float64 if types == {torch.float64} else torch.float32
    columns = []
    for group in groups:
        parts = [kept[name] for name in group.parameters if name in kept]
        total = _added((part.norm_squared for part in parts), losses, dtype)
        if ordered:
            least = (part.norm_squared if part.least is None else part.least for part in parts)
            total = total.maximum(_added(least, losses, dtype))
        columns.append(total)
    return columns


def _added(squares: Iterable[Tensor], losses: Tensor, dtype: torch.dtype) -> Tensor:
    total = losses.new_zeros(len(losses), dtype=dtype)
    for one in squares:
        total += in_type(one, dtype)
    return total


def _finite(norms: Tensor) -> Tensor:
    """(N,) whether an example's gradient is finite in every group."""
    finite = norms.isfinite()
    return finite if norms.dim() == 1 else finite.all(1)


def _zeros(parameter: Tensor) -> Tensor:
    """In float32 at least: with fewer digits, rounding would move the sum by more than one example does."""
    return torch.zeros_like(parameter, dtype=wide_type(parameter.dtype))


def checked_clipping(clipping: ClipFunction | str) -> ClipFunction:
    """The clipping function, looked up if a name is given."""
    return _by_name(clipping) if isinstance(clipping, str) else clipping


def checked_groups(
    max_grad_norm: Bounds, parameters: Mapping[str, Tensor], clipping: ClipFunction
) -> tuple[Group, ...]:
    """The groups of the parameters; ConfigError for a bound that bounds nothing."""
    groups = grouped(max_grad_norm, parameters)
    for group in groups:
        clipping.check_bound(group.bound)
    return groups
