"""The sum over examples of clipped gradients, with the bound on what one example can add to it."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fl_dp.engine.bookkeeping import Axes, keep_gradients
from fl_dp.engine.forms import Kept
from fl_dp.engine.plan import Planner
from fl_dp.errors import ConfigError, ModelError


@dataclass(frozen=True, slots=True)
class ClippedSum:
    """Sum of per-example gradients, each scaled to length `sensitivity` at most.

    grads: parameter name -> sum, in the parameter's shape. Adding or removing one example, whatever
    it holds, moves the whole of `grads` by at most `sensitivity` in Euclidean norm.
    norms: (N,) lengths before clipping, NaN or inf where not finite: raw data, never to be sent.

    | example's gradient | contribution |
    |---|---|
    | zero | zero |
    | no longer than C | itself |
    | longer than C | scaled to C |
    | NaN or inf somewhere | zero |
    """

    grads: Mapping[str, Tensor]
    sensitivity: float
    norms: Tensor

    def __add__(self, other: "ClippedSum") -> "ClippedSum":
        """Sum over both batches; an example may be in one of them only, so the bound stays."""
        if self.sensitivity != other.sensitivity:
            raise ConfigError(
                f"Cannot add clipped sums of sensitivity {self.sensitivity} and {other.sensitivity}."
            )
        grads = {name: grad + other.grads[name] for name, grad in self.grads.items()}
        return ClippedSum(grads, self.sensitivity, torch.cat([self.norms, other.norms]))


def empty_sum(parameters: Mapping[str, Tensor], max_grad_norm: float) -> ClippedSum:
    """The clipped sum over no examples: an empty Poisson draw is still a step."""
    _check_bound(max_grad_norm)
    grads = {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
    norms = next(iter(grads.values()), torch.zeros(0)).new_zeros(0)
    return ClippedSum(grads, max_grad_norm, norms)


@torch.no_grad()
def clipped_grad_sum(
    losses: Tensor,
    parameters: Mapping[str, Tensor],
    *,
    max_grad_norm: float,
    axes: Axes | None = None,
    planner: Planner | None = None,
) -> ClippedSum:
    """Clip each example's gradient to `max_grad_norm` and sum, in one backward pass.

    losses: (N,), each example's own loss (reduction="none"), with its graph, which is consumed.
    parameters: name -> trainable leaf, one clipping norm over all of them (Abadi et al. 2016).
    axes: from `probe`; None takes it that the batch is the leading dimension of every layer and
    that no example influences another's loss, which the caller then vouches for.

    Raises NoRuleError for an operator without a rule, ModelError for losses of another shape.
    """
    _check_bound(max_grad_norm)
    if losses.dim() != 1:
        raise ModelError(
            f'Expected losses of shape (N,), one per example (reduction="none"), got {tuple(losses.shape)}.'
        )
    if len(losses) == 0:
        return empty_sum(parameters, max_grad_norm)
    kept = keep_gradients(losses, parameters, axes, planner or Planner())
    norms = _norms(kept, losses)
    factors, rows = _factors(norms, max_grad_norm)
    grads = {
        name: kept[name].weighted_sum(factors, rows).view_as(parameter).to(parameter.dtype)
        if name in kept
        else torch.zeros_like(parameter)
        for name, parameter in parameters.items()
    }
    return ClippedSum(grads, max_grad_norm, norms)


def _norms(kept: Mapping[str, Kept], losses: Tensor) -> Tensor:
    """(N,) gradient lengths over all parameters, in float32 at least."""
    total = torch.zeros(len(losses), dtype=torch.promote_types(losses.dtype, torch.float32))
    total = total.to(losses.device)
    for part in kept.values():
        total += part.norm_squared.to(total.dtype)
    return total.sqrt()


def _factors(norms: Tensor, max_grad_norm: float) -> tuple[Tensor, Tensor | None]:
    """min(1, C / norm) (Abadi et al. 2016), rounded down; and the rows that take part, None for all."""
    down = 1 - 4 * torch.finfo(norms.dtype).eps
    factors = (max_grad_norm * down / norms).clamp_max(1.0)
    finite = norms.isfinite()
    if bool(finite.all()):
        return factors, None
    return factors, finite.nonzero().squeeze(1)


def _check_bound(max_grad_norm: float) -> None:
    if not max_grad_norm > 0:
        raise ConfigError(f"Expected max_grad_norm={max_grad_norm} > 0.")
