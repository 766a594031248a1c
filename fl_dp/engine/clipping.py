"""The sum over examples of clipped gradients, with the bound on what one example can add to it."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fl_dp.engine.axis import LEADING, BatchAxis
from fl_dp.engine.capture import Argument, OperatorKey, Use, UseKey, find_uses, output_grads
from fl_dp.engine.fallback import masked_grads, pull_back
from fl_dp.engine.forms import Dense, Form, Kept, Outer
from fl_dp.engine.plan import Planner
from fl_dp.engine.rules import check_rules, form_of
from fl_dp.errors import ConfigError, ModelError, ProbeError


@dataclass(frozen=True, slots=True)
class Axes:
    """What `probe` found out about a model: how to tell each example's part of every use.

    batch: where the examples are in the output of each use. shared: operators that work on
    parameters and constants alone. fallback: uses that no rule covers, to be answered exactly and slowly.
    """

    batch: Mapping[UseKey, BatchAxis]
    shared: frozenset[OperatorKey] = frozenset()
    fallback: frozenset[UseKey] = frozenset()


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


@torch.no_grad()
def keep_gradients(
    losses: Tensor,
    parameters: Mapping[str, Tensor],
    axes: Axes | None,
    planner: Planner,
    *,
    retain_graph: bool = False,
) -> dict[str, Kept]:
    """Norms, and what the weighted sum needs, of every parameter that the losses depend on."""
    uses = find_uses(losses, parameters, axes.shared if axes else frozenset())
    slow = axes.fallback if axes else frozenset()
    if axes is None:
        check_rules(uses)
    book = _Book(planner, uses)
    later: list[tuple[Use, Argument, Tensor | Form, BatchAxis]] = []

    def on_grad(use: Use, grad: Tensor) -> None:
        for argument in use.arguments:
            axis = _axis(argument.key, axes, len(losses))
            if argument.key in slow:
                later.append((use, argument, grad, axis))
                continue
            form = form_of(use, argument, grad, axis, len(losses))
            if argument.path is None:
                later.append((use, argument, form, axis))
            else:
                book.enter(argument.key.parameters[0], form)

    output_grads(losses, uses, on_grad, retain_graph=retain_graph or bool(slow))
    for use, argument, found, axis in later:
        names = argument.key.parameters
        if isinstance(found, Form):
            grads = found.instantiate().view(-1, *argument.shape)
        else:
            grads = masked_grads(use, argument, found, axis, len(losses))
        for name, pulled in pull_back(argument.edge, grads, parameters, names).items():
            book.enter(name, Dense(pulled))
    return book.closed()


class _Book:
    """Forms by parameter as they arrive, kept (and their layer's gradient freed) as soon as all are there."""

    def __init__(self, planner: Planner, uses: tuple[Use, ...]) -> None:
        self._planner = planner
        self._left = Counter(name for use in uses for key in use.keys for name in key.parameters)
        self._forms = defaultdict[str, list[Form]](list)
        self._kept: dict[str, Kept] = {}

    def enter(self, name: str, form: Form) -> None:
        self._forms[name].append(form)
        self._left[name] -= 1
        if self._left[name] == 0:
            self._keep(name)

    def closed(self) -> dict[str, Kept]:
        """All that was kept; some uses may not matter to the losses, and then never arrive."""
        for name in list(self._forms):
            self._keep(name)
        return self._kept

    def _keep(self, name: str) -> None:
        form = _joined(self._forms.pop(name))
        self._kept[name] = form.keep(self._planner.kernel(form))


def _joined(forms: list[Form]) -> Form:
    """One form for all uses of a parameter; their cross terms count."""
    if len(forms) == 1:
        return forms[0]
    outer = [form for form in forms if isinstance(form, Outer)]
    if len(outer) == len(forms) and len({form.shape for form in outer}) == 1:
        return Outer.joined(outer)
    total = forms[0].instantiate()
    for form in forms[1:]:
        total = total + form.instantiate().view_as(total)
    return Dense(total)


def _axis(key: UseKey, axes: Axes | None, num_examples: int) -> BatchAxis:
    if axes is None or num_examples == 1:  # all rows are the one example's, wherever they are
        return LEADING
    if key not in axes.batch:
        raise ProbeError(
            f"{key} was not used in this way when the model was checked at the start; "
            "the engine does not know which rows belong to which example."
        )
    return axes.batch[key]


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
