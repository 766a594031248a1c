"""One harness for one question: does an example touch another?

Each check calls something on a batch, changes the batch, calls again from the same random state, and compares
what must have stayed the same. Here are the batches, their changes, the call of a model and the comparison.
The checks are lists of changes, with what to say where something moved: `independence` and `mixing` up to
rounding, `steady_rows` and `recording` to the bit.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from fl_dp.clean_text import one_line
from fl_dp.engine.tracing.capture import REENTRANT
from fl_dp.engine.tracing.draws import Watch, seed_generators
from fl_dp.engine.tracing.known_layers import batch_second_layers
from fl_dp.engine.tracing.state import State, Written, is_lasting
from fl_dp.engine.tracing.structure import map_tensors, tensors
from fl_dp.engine.tracing.writes import same_values, written_to
from fl_dp.errors import CallError, ModelError

SEED = 0x5EED0F0E0D90  # no model seeds a generator with it by chance

_HIDDEN = "None of the inputs have requires_grad=True"  # torch.utils.checkpoint's words

Outputs = Mapping[str, Tensor]  # path in what was returned ("[0]", "['logits']") -> tensor
ONE = ""  # the path of a tensor that was returned by itself


@dataclass(frozen=True, slots=True)
class Batch:
    """`size` examples, and how to call with them: `function(*args, **kwargs)`.

    examples: identities of the tensors that hold the examples; None: all that are as long as the batch. Other
    tensors are passed on unchanged.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    size: int
    examples: frozenset[int] | None = None

    def mapped(self, change: Callable[[Tensor], Tensor], size: int) -> "Batch":
        """Another batch, of `size` examples: `change` of every tensor that holds examples.

        A container that makes its tensors on request gives others than were put in; then length tells.
        """
        made: dict[int, Tensor] = {}

        def changed(tensor: Tensor) -> Tensor:
            if not self._holds_examples(tensor):
                return tensor
            new = change(tensor.detach())
            made[id(new)] = new
            return new

        args, kwargs = map_tensors(changed, (self.args, self.kwargs))
        given = {id(tensor) for _, tensor in tensors((args, kwargs))}
        return Batch(args, kwargs, size, frozenset(made) if made.keys() <= given else None)

    def rows(self, rows: Sequence[int]) -> "Batch":
        """Another batch of the same examples: those of `rows`, in that order."""
        return self.mapped(lambda tensor: tensor[torch.tensor(rows, device=tensor.device)], len(rows))

    @property
    def device(self) -> torch.device:
        """Where the examples are."""
        inputs = tensors((self.args, self.kwargs))
        return next(tensor.device for _, tensor in inputs if self._holds_examples(tensor))

    def _holds_examples(self, tensor: Tensor) -> bool:
        if self.examples is None:
            return tensor.dim() > 0 and len(tensor) == self.size
        return id(tensor) in self.examples


def batch_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Batch:
    """The batch that a call has: the first tensor that has a dimension is as long as the batch, and every
    tensor of that length holds examples. ModelError if no tensor has a dimension.
    """
    size = next((len(tensor) for _, tensor in tensors((args, kwargs)) if tensor.dim()), None)
    if size is None:
        raise ModelError(
            "Called without a tensor that could hold examples: no tensor in the arguments, or in their "
            "tuples, lists, mappings and dataclasses, has a dimension. Wrap the model so that one has."
        )
    return Batch(args, kwargs, size)


@dataclass(frozen=True, slots=True)
class Change:
    """Another batch with some examples of the first. Its row after[i] holds the example of row before[i], and
    must give the same.
    """

    batch: Batch
    before: Sequence[int]
    after: Sequence[int]


def again(batch: Batch) -> Change:
    """Nothing is changed."""
    return Change(batch, range(batch.size), range(batch.size))


def beside(batch: Batch, others: Batch, changed: Sequence[int]) -> Change:
    """The examples `changed` are others in `others`."""
    stay = [row for row in range(batch.size) if row not in set(changed)]
    return Change(others, stay, stay)


def taken(batch: Batch, rows: Sequence[int]) -> Change:
    """The examples of `rows` alone, in that order."""
    return Change(batch.rows(rows), rows, range(len(rows)))


def reordered(change: Change, rows: Sequence[int]) -> Change:
    """The change, and then its batch's examples in the order of `rows`."""
    place = {row: i for i, row in enumerate(rows)}
    return Change(change.batch.rows(rows), change.before, [place[row] for row in change.after])


@dataclass(frozen=True, slots=True)
class Moved:
    """Where a call gave something that it must not give: in which way, and in which output."""

    way: Literal["structure", "shape", "value", "constant"]
    path: str = ONE
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()


# expected rows, found rows, all rows before the change -> whether they are the same
Alike = Callable[[Tensor, Tensor, Tensor], bool]


def moved(
    before: Outputs, after: Outputs, change: Change, alike: Alike, size: int, examples: frozenset[str]
) -> Moved | None:
    """The first output that the change moved; None if there is none."""
    return next(all_moved(before, after, change, alike, size, examples), None)


def all_moved(
    before: Outputs, after: Outputs, change: Change, alike: Alike, size: int, examples: frozenset[str]
) -> Iterator[Moved]:
    """Every output that the change moved; only "structure" if there are others after it.

    before: what a batch of `size` gave, after: what `change.batch` did. examples: paths of the outputs that
    hold examples. All others must stay as they are; in a batch of another size their shape may be another.
    """
    if before.keys() != after.keys():
        yield Moved("structure")
        return
    for path, output in before.items():
        found = after[path]
        if path not in examples:
            resized = change.batch.size != size and found.shape != output.shape
            if not resized and not alike(output, found, output):
                yield Moved("constant", path, tuple(output.shape))
        elif found.shape != (change.batch.size, *output.shape[1:]):
            yield Moved("shape", path, tuple(output.shape[1:]), tuple(found.shape[1:]))
        elif not alike(output[list(change.before)], found[list(change.after)], output):
            yield Moved("value", path)


def scale(numbers: Tensor, of: Callable[[Tensor], Tensor] = torch.max) -> float:
    """The largest of the finite numbers, or `of` their sizes; 1 instead of 0."""
    return float(of(torch.where(numbers.isfinite(), numbers, 0).abs())) or 1.0


def same_bits(before: Tensor, after: Tensor, _whole: Tensor | None = None) -> bool:
    """Equal numbers, NaN in the same places, at the same places in memory; 0 and -0 count as equal."""
    return before.stride() == after.stride() and same_values(before, after)


def same(before: Tensor, after: Tensor, whole: Tensor | None = None, tolerance: float | None = None) -> bool:
    """Equal up to what another order of summation may change, with NaN and infinities in the same places.

    tolerance: relative to the largest entry of `whole`, or of `before`.
    """
    if before.shape != after.shape or before.dtype != after.dtype:
        return False
    if not before.is_floating_point() or not before.numel():
        return torch.equal(before, after)
    before, after = before.detach(), after.detach()
    if tolerance is None:
        tolerance = min(1e-3, 100 * torch.finfo(before.dtype).eps)
    allowed = tolerance * scale(before if whole is None else whole.detach())
    return torch.allclose(before, after, rtol=0.0, atol=allowed, equal_nan=True)


def call(
    model: nn.Module,
    parameters: Mapping[str, Tensor],
    batch: Batch,
    watch: Watch | None = None,
    seed: int = SEED,
) -> Outputs:
    """The tensors that the model returns when it is called with `parameters` and copies of its buffers.

    Tensors inside tuples, lists, mappings and dataclasses are found. watch: observes random numbers and seeds
    them; without one they are those of `seed`, with the same dropout in every call. Raises ProbeError if a
    parameter or buffer is replaced or written, and CallError if the model cannot be called on synthetic
    examples. Buffers outside of the `state_dict` may be replaced, as attributes may.
    """
    own = dict(model.named_buffers())
    copies = {name: buffer.clone() for name, buffer in own.items()}
    lasting = {name: copies[name] for name in own if is_lasting(model, name)}
    seed_generators(seed)
    try:
        with in_place_of(model, {**parameters, **lasting}), warnings.catch_warnings():
            warnings.filterwarnings("error", message=_HIDDEN)
            state = State(model)
            before = state.look()
            with watch or nullcontext():
                outputs = model(*batch.args, **batch.kwargs)
            written = [one for one in before.changes(state.look()) if one.lasts and not one.is_attribute]
    except UserWarning as error:  # at the model's inputs, such a part leaves nothing in the graph at all
        raise ModelError(REENTRANT) from error
    except (ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise CallError(
            f"The model raised {type(error).__name__} on {batch.size} synthetic examples with integers 0 and "
            "1 (1 and 2 as lengths). Every tensor as long as the batch was taken to hold examples, and no "
            "other; wrap the model in a module that makes everything else itself. "
            f"{batch_second_layers(model)}".rstrip(),
            one_line(error),
        ) from error
    other = [name for name in own if not same_values(copies[name], own[name])]
    for name in other:
        if name not in lasting:  # the model's own was written, not a copy
            own[name].data.copy_(copies[name])
    for one in (*(Written(name, "buffer", lasts=True) for name in other), *written):
        raise written_to(one, model)
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
