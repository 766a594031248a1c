"""Start-up checks on synthetic inputs: can the engine bound what one example contributes to this model?

Not a list of forbidden classes: what a model does decides, however it is spelt. Found are where
the batch axis lies in every layer, examples that influence one another (batch norm), buffers that
remember data, and per-example gradients that differ from one backward pass per example.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fl_dp.engine.backward import Axes, keep_gradients
from fl_dp.engine.gradients.layouts import Kept
from fl_dp.engine.kernel_choice.chooser import Planner
from fl_dp.engine.precision import full_precision
from fl_dp.engine.rules import form_of
from fl_dp.engine.tracing.capture import OperatorKey, Use, UseKey, output_grads
from fl_dp.engine.tracing.example_rows import Layout, find_layout
from fl_dp.engine.tracing.independence import call, check_independence
from fl_dp.engine.tracing.ownership import data_may_move_rows
from fl_dp.engine.tracing.structure import tensors
from fl_dp.engine.tracing.synthetic import NUM_EXAMPLES, synthetic
from fl_dp.errors import ModelError, NoRuleError, ProbeError

_TOLERANCE = 1e-3  # relative; the mistakes that are looked for are of order one
_ATTEMPTS = 4  # on other synthetic examples: a dead ReLU may hide a use, data may move rows otherwise


def probe(model: nn.Module, *args: Any, **kwargs: Any) -> Axes:
    """Check `model` and find the batch axis of every use of its trainable parameters.

    args, kwargs: as the model is called; tensors in tuples, lists, mappings and dataclasses are found.
    Those as long as the first one hold the examples: only their shapes and types matter, values are
    never read (`synthetic` says what takes their place). All else is passed on as it is.
    Outputs may be of any structure as well; what depends on data must lead with the batch.
    The model, its buffers and PyTorch's global random state are left as they were.

    Raises ProbeError, NoRuleError or ModelError, naming the layer and the way out.
    """
    held = [*model.parameters(), *(tensor for _, tensor in tensors((args, kwargs)))]
    devices = {tensor.device for tensor in held if tensor.device.type == "cuda"}
    axes, trial = Axes({}), None
    with torch.random.fork_rng(devices), torch.enable_grad(), _no_autocast():
        for attempt in range(_ATTEMPTS):
            trial = _try(model, args, kwargs, axes.shared, attempt)
            axes = _joined(axes, trial.axes)
            if trial.settled:
                break
    if trial and trial.unknown and not axes.batch:
        raise ProbeError(
            f"{trial.unknown[0]}: in {_ATTEMPTS} synthetic batches some example's loss did not depend on it, "
            "and the engine cannot tell whose its rows are; freeze the parameter if it is not needed."
        )
    return axes


@contextmanager
def _no_autocast() -> Iterator[None]:
    """In fewer digits the checks would see too little; what uses what is the same in all."""
    with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
        yield


@dataclass(frozen=True, slots=True)
class _Trial:
    """What one synthetic batch shows: nothing where a use is unknown.

    settled: another batch would show no more, as every parameter was used and data can move no rows.
    """

    axes: Axes
    unknown: tuple[UseKey, ...] = ()
    settled: bool = False


def _try(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    shared: frozenset[OperatorKey],
    attempt: int,
) -> _Trial:
    torch.manual_seed(attempt)
    parameters = {n: _perturbed(p, attempt) for n, p in model.named_parameters() if p.requires_grad}
    batch = synthetic(args, kwargs, truth=attempt % 2 == 0)
    examples = check_independence(model, parameters, batch)
    losses = _losses(call(model, parameters, batch), examples)
    layout = find_layout(losses, parameters, shared)
    if layout.unknown:
        return _Trial(Axes({}), layout.unknown)
    changed = _losses(call(model, parameters, batch.with_other(0)), examples)
    axes = Axes(layout.batch, layout.shared, _without_rule(losses, layout))
    _check_gradients(losses, changed, parameters, axes)
    used = {name for key in layout.batch for name in key.parameters}
    settled = used == parameters.keys() and not data_may_move_rows(losses, layout.uses)
    return _Trial(axes, settled=settled)


def _perturbed(parameter: Tensor, attempt: int) -> Tensor:
    """A copy with no zeros, which would hide what lies below a layer initialised to zero.

    Near the parameter in the first attempt, far from it in the others, where data may take another way.
    """
    noise = torch.randn_like(parameter)
    scale = float(parameter.detach().float().pow(2).mean().sqrt()) or 1.0
    return (parameter.detach() + (0.5 if attempt else 0.1) * scale * noise).requires_grad_()


def _losses(outputs: Mapping[str, Tensor], examples: frozenset[str]) -> Tensor:
    """(N,) sums that weigh every finite entry of every output differently."""
    torch.manual_seed(0)  # the same weights in every call
    parts = [_weighted(o) for path, o in outputs.items() if path in examples and o.requires_grad]
    if not parts:
        raise ModelError("No output of the model depends on a trainable parameter.")
    return torch.stack(parts).sum(0)


def _weighted(output: Tensor) -> Tensor:
    rows = torch.where(output.isfinite(), output, 0).reshape(NUM_EXAMPLES, -1)
    return (rows * torch.randn_like(rows)).sum(1, dtype=torch.promote_types(output.dtype, torch.float32))


def _joined(one: Axes, other: Axes) -> Axes:
    return Axes({**one.batch, **other.batch}, one.shared | other.shared, one.fallback | other.fallback)


def _without_rule(losses: Tensor, layout: Layout) -> frozenset[UseKey]:
    """Uses that no rule covers; refuses those that the fallback cannot answer either."""
    found: set[UseKey] = set()

    def ask(use: Use, grad: Tensor) -> None:
        for argument in use.arguments:
            try:
                form_of(use, argument, grad, layout.batch[argument.key], NUM_EXAMPLES)
            except NoRuleError:
                if len(use.node._input_metadata) > 1:
                    raise
                found.add(argument.key)

    with torch.no_grad():
        output_grads(losses, layout.uses, ask, retain_graph=True)
    return frozenset(found)


def _check_gradients(losses: Tensor, changed: Tensor, parameters: Mapping[str, Tensor], axes: Axes) -> None:
    """The definition: the engine's per-example gradients equal one backward pass per example.

    changed: losses of the batch with another first example, which must leave the gradients of the
    others as they are; a backward function could mix examples that the forward pass keeps apart.
    """
    kept = keep_gradients(losses, parameters, axes, Planner(), retain_graph=True)
    for example in range(NUM_EXAMPLES):
        _check_example(example, losses, changed, parameters, kept)


def _check_example(
    example: int, losses: Tensor, changed: Tensor, parameters: Mapping[str, Tensor], kept: Mapping[str, Kept]
) -> None:
    """Parameter by parameter: beside large models there may be little memory left."""
    one_hot = torch.zeros_like(losses)
    one_hot[example] = 1
    expected = _gradients(losses[example], parameters)
    for name, gradient in expected.items():
        with torch.no_grad(), full_precision(losses.device):
            found = kept[name].weighted_sum(one_hot, None) if name in kept else torch.zeros_like(gradient)
        _compare(name, found, gradient, "is not what one backward pass per example gives")
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


def _compare(name: str, found: Tensor, expected: Tensor, mistake: str) -> None:
    error, length = float((expected - found.view_as(expected)).norm()), float(expected.norm())
    tolerance = max(_TOLERANCE, 8 * torch.finfo(expected.dtype).eps)
    if not error <= tolerance * (length + 1e-6):
        raise ProbeError(
            f"The per-example gradient of {name} {mistake} (off by {error:.1e} of {length:.1e} on "
            "synthetic data); freeze the parameter or replace its layer, and please report this model."
        )
