"""Does one example's output depend on another example, of the same batch or of an earlier one?"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fl_dp.clean_text import one_line
from fl_dp.engine.tracing.capture import REENTRANT
from fl_dp.engine.tracing.draws import Watch
from fl_dp.engine.tracing.known_layers import batch_norms, batch_second_layers, mixing_layers
from fl_dp.engine.tracing.structure import tensors
from fl_dp.engine.tracing.synthetic import NUM_EXAMPLES, Synthetic
from fl_dp.engine.tracing.writes import check_held, held, parameters_kept, same_values
from fl_dp.errors import CallError, ModelError, ProbeError

SEED = 0x5EED0F0E0D90  # for all calls but those of `places`; no model seeds a generator with it by chance

_HIDDEN = "None of the inputs have requires_grad=True"  # torch.utils.checkpoint's words

Outputs = Mapping[str, Tensor]  # path in what the model returns ("[0]", "['logits']") -> tensor


def call(
    model: nn.Module,
    parameters: Mapping[str, Tensor],
    batch: Synthetic,
    watch: Watch | None = None,
) -> Outputs:
    """The tensors that the model returns when it is called with copies of its buffers.

    Tensors inside tuples, lists, mappings and dataclasses are found. watch: observes random numbers and seeds
    them; without one they are those of SEED, with the same dropout in every call. Raises ProbeError if a
    buffer changes, and CallError if the model cannot be called on synthetic examples.
    """
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    torch.manual_seed(SEED)
    try:
        with watch or nullcontext(), warnings.catch_warnings():
            warnings.filterwarnings("error", message=_HIDDEN)
            outputs = functional_call(model, {**parameters, **buffers}, batch.args, batch.kwargs)
    except UserWarning as error:  # at the model's inputs, such a part leaves nothing in the graph at all
        raise ModelError(REENTRANT) from error
    except (ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise CallError(
            f"The model raised {type(error).__name__} on {batch.size} synthetic examples with integers "
            "0 and 1 (1 and 2 as lengths). Every tensor as long as the batch was taken to hold examples, and "
            "no other; wrap the model in a module that makes all else by itself. "
            f"{batch_second_layers(model)}".rstrip(),
            one_line(error),
        ) from error
    for name, buffer in model.named_buffers():
        if not same_values(buffers[name], buffer):
            raise ProbeError(
                f"The forward pass writes to buffer {name}, which then holds data that no noise protects. "
                f"{batch_norms(model) or 'Replace its layer.'} Or put it in evaluation mode."
            )
    return dict(tensors(outputs))


@contextmanager
def in_place_of(model: nn.Module, given: Mapping[str, Tensor]) -> Iterator[None]:
    """Within it, `given` replace the model's own parameters and buffers of the same names, tied ones in all
    places.

    `call` does so itself, but only for the forward pass: a checkpointed part runs again later.
    """
    own_tensors = (*model.named_parameters(), *model.named_buffers())
    by_tensor = {id(own): given[name] for name, own in own_tensors if name in given}
    places: list[tuple[dict[str, Any], str, Tensor]] = [
        (table, name, own)
        for module in model.modules()
        for table in (module._parameters, module._buffers)
        for name, own in table.items()
        if own is not None and id(own) in by_tensor
    ]
    try:
        for table, name, own in places:
            table[name] = by_tensor[id(own)]
        yield
    finally:
        for table, name, own in places:
            table[name] = own


def check_independence(
    model: nn.Module, parameters: Mapping[str, Tensor], batch: Synthetic
) -> frozenset[str]:
    """Paths of the outputs that hold examples: their first dimension is the batch.

    Each example in turn is replaced by another one. The outputs of all others must not change, and the model
    must hold nothing else afterwards. Losses may be made of any output. So the first dimension of an output
    that depends on data must be the batch, else ModelError is raised. An output that depends on parameters
    alone (a temperature) may have any shape. Raises ProbeError if examples influence one another, or stay in
    the model.
    """
    with parameters_kept(model, parameters) as kept:
        before = call(model, parameters, batch, Watch(SEED))
        kept.check()
        _check_numbers(before)
        in_attributes = held(model)
        _check_memory(before, call(model, parameters, batch, Watch(SEED)))
        examples = frozenset(p for p, out in before.items() if out.dim() and len(out) == NUM_EXAMPLES)
        for example in range(NUM_EXAMPLES):
            after = call(model, parameters, batch.with_other(example), Watch(SEED))
            _check_other(model, example, before, after, examples)
            check_held(in_attributes, held(model))
        kept.check()
    if not examples:
        raise ModelError(
            f"The model returned no tensor of shape ({NUM_EXAMPLES}, ...): nothing leads with the batch."
        )
    return examples


def _check_other(
    model: nn.Module, example: int, before: Outputs, after: Outputs, examples: frozenset[str]
) -> None:
    if after.keys() != before.keys():
        raise ModelError("The model returned another structure for other data; wrap it so that it does not.")
    others = [n for n in range(NUM_EXAMPLES) if n != example]
    for path, output in before.items():
        if path in examples:
            _check_others(model, output[others], after[path][others])
        else:
            _check_constant(path, output, after[path])


def _check_numbers(outputs: Outputs) -> None:
    for path, output in outputs.items():
        if bool(output.isnan().any()):
            raise ModelError(
                f"Output {path} holds NaN for synthetic examples of normal numbers, so that nothing can be "
                "checked; wrap the model in a module that brings its inputs into their range."
            )


def _check_memory(first: Outputs, second: Outputs) -> None:
    """The same batch must give the same outputs again."""
    if first.keys() != second.keys() or not all(same(first[path], second[path]) for path in first):
        raise ProbeError(
            "Two calls on the same batch gave different outputs: the model remembers data of earlier "
            "batches, which no noise protects, or draws random numbers elsewhere than from torch."
        )


def _check_others(model: nn.Module, before: Tensor, after: Tensor) -> None:
    if before.shape != after.shape:
        raise ProbeError(
            "The shape of one example's output depends on another example of the batch: "
            f"{tuple(before.shape[1:])}, then {tuple(after.shape[1:])}. Keep it fixed, for example by "
            "pad_packed_sequence(..., total_length=inputs.shape[1])."
        )
    if not same(before, after):
        raise ProbeError(
            "One example's output depends on another example of the batch; no clipping bounds what such an "
            f"example contributes. {mixing_layers(model)}"
        )


def _check_constant(path: str, before: Tensor, after: Tensor) -> None:
    if not same(before, after):
        raise ModelError(
            f"Expected every output that depends on data to be of shape ({NUM_EXAMPLES}, ...), one row for "
            f"each of {NUM_EXAMPLES} examples; output {path} has shape {tuple(before.shape)}. Return what "
            'the losses are made of, batch first, and take losses outside the model (reduction="none").'
        )


def same(before: Tensor, after: Tensor, tolerance: float | None = None) -> bool:
    """Equal up to what another order of summation may change, with NaN and infinities in the same places.

    tolerance: relative to the largest entry of `before`.
    """
    if before.shape != after.shape or before.dtype != after.dtype:
        return False
    if not before.is_floating_point() or not before.numel():
        return torch.equal(before, after)
    before, after = before.detach(), after.detach()
    scale = float(torch.where(before.isfinite(), before, 0).abs().max()) or 1.0
    if tolerance is None:
        tolerance = min(1e-3, 100 * torch.finfo(before.dtype).eps)
    return torch.allclose(before, after, rtol=0.0, atol=tolerance * scale, equal_nan=True)
