"""Start-up checks on synthetic inputs: can the engine bound what one example contributes to this model?

Not a list of forbidden classes: what a model does decides, however it is spelt. Found are where
the batch axis lies in every layer, examples that influence one another (batch norm), buffers that
remember data, and per-example gradients that differ from one backward pass per example.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fl_dp.engine.axis import BatchAxis
from fl_dp.engine.bookkeeping import Axes, keep_gradients
from fl_dp.engine.capture import OperatorKey, Use, UseKey, find_uses, output_grads
from fl_dp.engine.plan import Planner
from fl_dp.engine.rules import form_of
from fl_dp.errors import ModelError, NoRuleError, ProbeError

NUM_EXAMPLES = 3
_TOLERANCE = 1e-3  # relative; the mistakes that are looked for are of order one
_SEED = 0


def probe(model: nn.Module, *inputs: Tensor) -> Axes:
    """Check `model` and find the batch axis of every use of its trainable parameters.

    inputs: as the model is called, the batch leading in each and in the output; only shapes and
    types matter, values are never read. The model, its buffers and PyTorch's global random state
    are left as they were. Raises ProbeError or NoRuleError, naming the layer and the way out.
    """
    devices = [t.device for t in inputs if t.device.type == "cuda"]
    with torch.random.fork_rng(devices), torch.enable_grad():
        torch.manual_seed(_SEED)
        synthetic = tuple(_synthetic(tensor) for tensor in inputs)
        parameters = {n: _perturbed(p) for n, p in model.named_parameters() if p.requires_grad}
        _check_independence(model, parameters, synthetic)
        losses = _losses(model, parameters, synthetic)
        axes = _find_axes(losses, parameters)
        _check_gradients(losses, parameters, axes)
    return axes


def _synthetic(tensor: Tensor) -> Tensor:
    shape = (NUM_EXAMPLES, *tensor.shape[1:])
    if tensor.is_floating_point():
        return torch.randn(shape, dtype=tensor.dtype, device=tensor.device)
    return torch.ones(shape, dtype=tensor.dtype, device=tensor.device)  # a valid index of any table


def _perturbed(parameter: Tensor) -> Tensor:
    """A copy with no zeros: a layer initialised to zero would hide what lies below it."""
    noise = torch.randn_like(parameter)
    scale = float(parameter.detach().float().pow(2).mean().sqrt()) or 1.0
    return (parameter.detach() + 0.1 * scale * noise).requires_grad_()


def _call(model: nn.Module, parameters: Mapping[str, Tensor], inputs: tuple[Tensor, ...]) -> Tensor:
    """The model's output (N, ...), with copies of its buffers; refuses buffers that change."""
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    torch.manual_seed(_SEED)  # the same dropout in every call
    output = functional_call(model, {**parameters, **buffers}, inputs)
    for name, buffer in model.named_buffers():
        if not torch.equal(buffers[name], buffer):
            raise ProbeError(
                f"The forward pass writes to buffer {name}, which then holds data that no noise protects; "
                "replace the layer (batch norm by group norm), or put it in evaluation mode."
            )
    if not isinstance(output, Tensor) or output.dim() == 0 or len(output) != NUM_EXAMPLES:
        shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise ModelError(f"Expected a model output of shape ({NUM_EXAMPLES}, ...), got {shape}.")
    return output


def _check_independence(
    model: nn.Module, parameters: Mapping[str, Tensor], inputs: tuple[Tensor, ...]
) -> None:
    """Another first example must leave the outputs of all others as they are."""
    changed = tuple(_other_first_example(tensor) for tensor in inputs)
    with torch.no_grad():
        before = _call(model, parameters, inputs)[1:]
        after = _call(model, parameters, changed)[1:]
    scale = float(before.abs().max()) or 1.0
    if not float((before - after).abs().max()) <= _TOLERANCE * scale:
        raise ProbeError(
            "One example's output depends on another example of the batch (batch norm does this); "
            "no clipping bounds what such an example contributes. Replace the layer, for example "
            "by GroupNorm."
        )


def _other_first_example(tensor: Tensor) -> Tensor:
    changed = tensor.clone()
    changed[0] = torch.randn_like(changed[0]) * 3 if tensor.is_floating_point() else 0
    return changed


def _losses(model: nn.Module, parameters: Mapping[str, Tensor], inputs: tuple[Tensor, ...]) -> Tensor:
    output = _call(model, parameters, inputs).reshape(NUM_EXAMPLES, -1)
    return (output * torch.randn_like(output)).sum(1)


def _find_axes(losses: Tensor, parameters: Mapping[str, Tensor]) -> Axes:
    """Tell uses from operators on parameters alone: these come into every example's loss as a whole."""
    shared: frozenset[OperatorKey] = frozenset()
    while True:
        uses = find_uses(losses, parameters, shared)
        reached = _reached(losses, uses)
        batch = {key: _axis_of(masks) for key, masks in reached.items()}
        mixed = [use for use in uses if any(batch.get(key, 0) is None for key in use.keys)]
        whole = frozenset(use.operator for use in mixed if use.frontier)
        if not mixed:
            break
        if not whole:
            raise ProbeError(
                f"{mixed[0].keys[0]}: the rows of one example cannot be told from another's; either examples "
                "are mixed there, or the batch is laid out in a way that the engine does not know."
            )
        shared |= whole
    axes = {key: axis for key, axis in batch.items() if axis is not None}
    return Axes(axes, shared, _without_rule(losses, uses, axes))


def _reached(losses: Tensor, uses: tuple[Use, ...]) -> dict[UseKey, list[tuple[int, Tensor]]]:
    """Which entries of each use's output matter to example i's own loss."""
    reached: dict[UseKey, list[tuple[int, Tensor]]] = {}
    for i in range(NUM_EXAMPLES):

        def note(use: Use, grad: Tensor, example: int = i) -> None:
            for key in use.keys:
                reached.setdefault(key, []).append((example, grad != 0))

        output_grads(losses[i : i + 1], uses, note, retain_graph=True)
    return reached


def _axis_of(masks: list[tuple[int, Tensor]]) -> BatchAxis | None:
    """The first layout in which every example's rows are its own, in all uses of one key; None if none."""
    dims = range(masks[0][1].dim())
    for axis in (BatchAxis(dim, minor) for dim in dims for minor in (False, True)):
        if all(_fits(axis, mask, example) for example, mask in masks):
            return axis
    return None


def _without_rule(
    losses: Tensor, uses: tuple[Use, ...], axes: Mapping[UseKey, BatchAxis]
) -> frozenset[UseKey]:
    """Uses that no rule covers; refuses those that the fallback cannot answer either."""
    found: set[UseKey] = set()

    def ask(use: Use, grad: Tensor) -> None:
        for argument in use.arguments:
            try:
                form_of(use, argument, grad, axes[argument.key], NUM_EXAMPLES)
            except NoRuleError:
                if len(use.node._input_metadata) > 1:
                    raise
                found.add(argument.key)

    with torch.no_grad():
        output_grads(losses, uses, ask, retain_graph=True)
    return frozenset(found)


def _fits(axis: BatchAxis, mask: Tensor, example: int) -> bool:
    if mask.shape[axis.dim] % NUM_EXAMPLES:
        return False
    by_example = axis.split(mask, NUM_EXAMPLES).flatten(1).any(1)
    by_example[example] = False
    return not bool(by_example.any())


def _check_gradients(losses: Tensor, parameters: Mapping[str, Tensor], axes: Axes) -> None:
    """The definition: the engine's per-example gradients equal one backward pass per example."""
    kept = keep_gradients(losses, parameters, axes, Planner(), retain_graph=True)
    for i in range(NUM_EXAMPLES):
        grads = torch.autograd.grad(
            losses[i], list(parameters.values()), retain_graph=True, allow_unused=True
        )
        one_hot = torch.zeros_like(losses)
        one_hot[i] = 1
        for (name, parameter), grad in zip(parameters.items(), grads, strict=True):
            expected = torch.zeros_like(parameter) if grad is None else grad
            found = torch.zeros_like(parameter)
            if name in kept:
                found = kept[name].weighted_sum(one_hot, None).view_as(parameter)
            error = float((found - expected).norm())
            if not error <= _TOLERANCE * (float(expected.norm()) + 1e-6):
                raise ProbeError(
                    f"The per-example gradient of {name} is not what one backward pass per example gives "
                    f"(off by {error:.1e} of {float(expected.norm()):.1e} on synthetic data); "
                    "freeze the parameter or replace its layer, and please report this model."
                )
