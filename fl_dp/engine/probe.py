"""Start-up checks on synthetic inputs: can the engine bound what one example contributes to this model?

There is no list of forbidden classes: only what a model does counts, however it is written. The checks find
where the batch axis lies in every layer. They refuse models whose examples influence one another (batch norm)
or whose results depend on an example's place, models that remember data, and models whose per-example
gradients differ from one backward pass per example.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils.checkpoint import GraphExecGroup

from fl_dp.engine.backward import Axes, keep_gradients
from fl_dp.engine.gradients.kept import Kept
from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.engine.precision import full_precision
from fl_dp.engine.rule_table import layout_of
from fl_dp.engine.saved import SavedNode
from fl_dp.engine.sum_error import additions
from fl_dp.engine.tracing.axis import ExampleRows, find_example_rows
from fl_dp.engine.tracing.capture import (
    OperatorKey,
    Use,
    UseKey,
    changed_grads,
    find_uses,
    graph_of,
    output_grads,
)
from fl_dp.engine.tracing.draws import kept_random_state, seed_generators
from fl_dp.engine.tracing.harness import SEED, Batch, Outputs, batch_of, call, in_place_of
from fl_dp.engine.tracing.independence import Seen, check_independence, check_places
from fl_dp.engine.tracing.known_layers import refuse_parallel
from fl_dp.engine.tracing.ownership import OwnerCheck, data_may_move_rows
from fl_dp.engine.tracing.structure import children
from fl_dp.engine.tracing.synthetic import NUM_EXAMPLES, Synthetic, synthetic
from fl_dp.engine.unfused import unfuse
from fl_dp.errors import CallError, ModelError, NoRuleError, ProbeError

_TOLERANCE = 1e-3  # relative; the errors that the check looks for are of order one
# Each on new synthetic examples: a dead ReLU may hide a use, other data may move rows elsewhere.
_ATTEMPTS = 4


def probe(model: nn.Module, *args: Any, **kwargs: Any) -> Axes:
    """Check `model` and find the batch axis of every use of its trainable parameters.

    The model, its buffers and PyTorch's global random state do not change.

    Args:
        model: Its outputs may be of any structure; the first dimension of every output that depends on data
            must be the batch.
        args: What the model is called with; tensors in tuples, lists, mappings and dataclasses are found.
            Tensors as long as the first one hold the examples. Only their shapes and types matter: their
            values are never read (`synthetic` says what replaces them). Everything else is passed on
            unchanged.
        kwargs: The same by name.

    Returns:
        What `axes=` takes.

    Raises:
        ProbeError: An example moves another's output. All errors name the layer and what to do.
        NoRuleError: An operator without a rule.
        ModelError: A model that cannot be trained in this way.

    Example:
        >>> import fl_dp, torch
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
        >>> try:
        ...     fl_dp.probe(model, torch.randn(8, 4))
        ... except fl_dp.errors.FlDpError as error:
        ...     print("BatchNorm1d" in str(error))
        True
    """
    return probed(model, args, kwargs)


def probed(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, clears: bool = False, turn: int = 0
) -> Axes:
    """`probe`. clears: as in `check_independence`. turn: another one has other random numbers."""
    refuse_parallel(model)
    unfuse(model)
    _refuse_packed((args, kwargs))
    axes, trial, given = Axes({}), None, batch_of(args, kwargs)
    with kept_random_state(), torch.enable_grad(), _no_autocast(model), full_precision(given.device):
        for attempt in range(turn * _ATTEMPTS, (turn + 1) * _ATTEMPTS):
            trial = _try(model, given, axes.shared, attempt, clears=clears)
            axes = joined(axes, trial.axes)
            if trial.settled:
                break
    if trial and trial.unknown and not axes.batch and not axes.by_loss:
        raise ProbeError(
            f"{trial.unknown[0]}: in {_ATTEMPTS} synthetic batches some example's loss did not depend on it, "
            "and the engine cannot tell which examples its rows belong to; freeze the parameter if it is "
            "not needed."
        )
    return axes


@contextmanager
def _no_autocast(model: nn.Module) -> Iterator[None]:
    """Turns autocast off, so that the checks have enough digits; it does not decide which operators run.

    accelerate, and with it HuggingFace's Trainer, turns autocast on in a forward that it wraps around the
    model's own: within this context the model has its own.
    """
    wrapped = {part: part.forward for part in model.modules() if _is_forward_of_accelerate(part)}
    try:
        for part in wrapped:
            part.forward = part._original_forward  # type: ignore[assignment]
        with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
            yield
    finally:
        for part, forward in wrapped.items():
            part.forward = forward


def _is_forward_of_accelerate(part: nn.Module) -> bool:
    """Whether `Accelerator.prepare_model` made its outermost wrapper."""
    forward = vars(part).get("forward")
    function = getattr(forward, "__func__", forward)
    return "_original_forward" in vars(part) and function.__module__ == "accelerate.utils.operations"


@dataclass(frozen=True, slots=True)
class _Trial:
    """What one synthetic batch shows. The axes are empty if the rows of some use are unknown.

    settled: another batch would show nothing new, because every parameter was used and data cannot move
    rows.
    """

    axes: Axes
    unknown: tuple[UseKey, ...] = ()
    settled: bool = False


def _try(
    model: nn.Module, given: Batch, shared: frozenset[OperatorKey], attempt: int, *, clears: bool
) -> _Trial:
    seed_generators(attempt)
    parameters = {n: _perturbed(p, attempt) for n, p in model.named_parameters() if p.requires_grad}
    with in_place_of(model, parameters):  # also for checkpointed parts, which a backward pass computes again
        check = partial(check_independence, model, parameters, clears=clears, seed=SEED + attempt)
        batch, seen = _independent(check, given, attempt)
        check_places(model, parameters, batch, seen)
        # as in training: an observed call may take other operators
        outputs = call(model, parameters, batch, seed=SEED + attempt)
        losses, changed = (_losses(of, seen.examples) for of in (outputs, seen.beside_another))
        rows = None if seen.watch.packed else find_example_rows(losses, parameters, shared)
        if rows is None or not _within(outputs, rows.uses):
            return _trial_by_loss(losses, changed, parameters)
        if rows.unknown:
            return _Trial(Axes({}), rows.unknown)
        axes = Axes(rows.batch, rows.shared, _without_rule(losses, rows))
        _check_gradients(losses, changed, parameters, axes)
        used = {name for key in rows.batch for name in key.parameters}
        settled = used == parameters.keys() and not data_may_move_rows(losses, rows.uses)
        return _Trial(axes, settled=settled)


def _independent(check: Callable[[Synthetic], Seen], given: Batch, attempt: int) -> tuple[Synthetic, Seen]:
    """A synthetic batch that the model can be called with, and what `check_independence` sees on it."""
    truth = attempt % 2 == 0
    batch = synthetic(given, truth)
    try:
        return batch, check(batch)
    except CallError as error:
        batch = synthetic(given, truth, lengths=True)
        try:
            return batch, check(batch)
        except CallError:
            raise error from error.__cause__


def _within(outputs: Outputs, uses: tuple[Use, ...]) -> bool:
    """Whether all uses are inside the model. Those above its outputs belong to the losses made here."""
    nodes = {node for output in outputs.values() for node in graph_of(output)}
    return all(use.node in nodes for use in uses)


def _trial_by_loss(losses: Tensor, changed: Tensor, parameters: Mapping[str, Tensor]) -> _Trial:
    """The trial of a model in which no rows can be assigned to single examples.

    A model that packs sequences is one, although synthetic lengths may be equal: a row that seems to be one
    example's may be another's in a real batch.
    """
    axes = Axes({}, by_loss=True)
    _check_gradients(losses, changed, parameters, axes)
    return _Trial(axes, settled=True)


def _refuse_packed(structure: Any) -> None:
    """ModelError if packed sequences are among the inputs: their rows are no examples."""
    if isinstance(structure, PackedSequence):
        raise ModelError(
            "The model was called with a PackedSequence, in which no dimension is the batch. Call it with "
            "padded sequences (N, T, ...) and a vector of lengths (N,), and let it pack them itself, with "
            "batch_first=True and enforce_sorted=False."
        )
    for _, child in children(structure):
        _refuse_packed(child)


def _perturbed(parameter: Tensor, attempt: int) -> Tensor:
    """A copy without zeros: a layer initialised to zero would hide every use below it.

    In the first attempt the copy is near the parameter. In the others it is far away, so that data may be
    routed differently.
    """
    noise = torch.randn_like(parameter)
    scale = float(parameter.detach().abs().float().pow(2).mean().sqrt()) or 1.0
    return (parameter.detach() + (0.5 if attempt else 0.1) * scale * noise).requires_grad_()


def _losses(outputs: Outputs, examples: frozenset[str]) -> Tensor:
    """(N,) weighted sums of the outputs; every finite entry has its own weight."""
    seed_generators(0)  # the same weights in every call
    parts = [_weighted(o) for path, o in outputs.items() if path in examples and o.requires_grad]
    if not parts:
        raise ModelError("No output of the model depends on a trainable parameter.")
    return torch.stack(parts).sum(0)


def _weighted(output: Tensor) -> Tensor:
    rows = torch.where(output.isfinite(), output, 0).reshape(NUM_EXAMPLES, -1)
    return (rows * torch.randn_like(rows)).sum(1, dtype=torch.promote_types(output.dtype, torch.float32))


def joined(one: Axes, other: Axes) -> Axes:
    """What both found, of one model."""
    return Axes(
        {**one.batch, **other.batch},
        one.shared | other.shared,
        one.fallback | other.fallback,
        owners=OwnerCheck(is_nonlinear=one.owners.found_nonlinear or other.owners.found_nonlinear),
        by_loss=one.by_loss or other.by_loss,
    )


def _without_rule(losses: Tensor, rows: ExampleRows) -> frozenset[UseKey]:
    """Uses that no rule covers; NoRuleError if the fallback does not work either."""
    found: set[UseKey] = set()
    group = GraphExecGroup()

    def ask(use: Use, grad: Tensor) -> None:
        for argument in use.arguments:
            try:
                layout_of(
                    SavedNode(use.node, group), use, argument, grad, rows.batch[argument.key], NUM_EXAMPLES
                )
            except NoRuleError:
                if len(use.node._input_metadata) > 1:
                    raise
                found.add(argument.key)

    with torch.no_grad():
        output_grads(losses, rows.uses, ask, retain_graph=True)
    return frozenset(found)


def _check_gradients(losses: Tensor, changed: Tensor, parameters: Mapping[str, Tensor], axes: Axes) -> None:
    """The definition: the engine's per-example gradients equal one backward pass per example.

    changed: losses of the batch with another first example. The gradients of all other examples must not
    change: a backward function could mix examples that the forward pass keeps apart. NaN at a use counts
    as zero: it is 0 / 0, where a layer normalises the gradients of the other examples, which are zero.
    """
    kept = keep_gradients(losses, parameters, axes, KernelChooser(), retain_graph=True)
    uses = (use for graph in (losses, changed) for use in find_uses(graph, parameters, axes.shared))
    with changed_grads(tuple(uses), lambda grad: grad.where(~grad.isnan(), 0)):
        for example in range(NUM_EXAMPLES):
            _check_example(example, losses, changed, parameters, kept)


def _check_example(
    example: int, losses: Tensor, changed: Tensor, parameters: Mapping[str, Tensor], kept: Mapping[str, Kept]
) -> None:
    """Compare the parameters one by one: with large models there may be little memory left."""
    one_hot = torch.zeros_like(losses)
    one_hot[example] = 1
    expected = _gradients(losses[example], parameters)
    whole = math.hypot(*(float(gradient.norm()) for gradient in expected.values()))
    for name, gradient in expected.items():
        found = torch.zeros_like(gradient)
        if part := kept.get(name):
            with torch.no_grad():
                adding = additions(part.positions, gradient.numel(), NUM_EXAMPLES, ordered=False)
                found = part.weighted_sum(one_hot, adding)
        _compare(name, found, gradient, "is not what one backward pass per example gives", whole)
    if example > 0:  # the first is the one that was changed
        beside_another = _gradients(changed[example], parameters)
        for name, gradient in expected.items():
            _compare(name, beside_another[name], gradient, "depends on another example of the batch")


def _gradients(loss: Tensor, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    grads = torch.autograd.grad(loss, list(parameters.values()), retain_graph=True, allow_unused=True)
    return {
        name: torch.zeros_like(parameter) if grad is None else grad.to_dense()
        for (name, parameter), grad in zip(parameters.items(), grads, strict=True)
    }


def _compare(name: str, found: Tensor, expected: Tensor, mistake: str, whole: float = 0.0) -> None:
    """ProbeError unless both are one gradient, but for rounding.

    whole: the length of the example's gradient over all parameters; 0 where examples may mix. A bias before a
    norm of each channel has the gradient 0: its terms cancel, and two orders of summation leave two
    remainders. So float32's rounding of the whole is allowed, however short this part is.
    """
    error, length = float((expected - found.view_as(expected)).norm()), float(expected.norm())
    own = torch.finfo(expected.dtype).eps
    tolerance = max(_TOLERANCE, 8 * own) * (length + 1e-6)
    rounding = 8 * min(own, torch.finfo(torch.float32).eps) * whole
    if not error <= max(tolerance, rounding):
        raise ProbeError(
            f"The per-example gradient of {name} {mistake} (off by {error:.1e} of {length:.1e} on "
            "synthetic data). If the model itself turns on autocast, do that in losses_of. Otherwise "
            "replace its layer, or whatever works across examples in a hook or a backward function, or "
            "freeze the parameter; and please report this model."
        )
