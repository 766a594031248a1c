"""Does one example's output depend on another example, of the same batch or of an earlier one; on its place;
or on how many examples there are?

If a place or the number matters, one record more or less changes the gradients of all others: it shifts their
places, and makes the batch larger.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from torch import Tensor, nn

from fl_dp.engine.tracing.draws import LEVELS, Watch
from fl_dp.engine.tracing.harness import SEED, Change, Moved, Outputs, again, call, moved, same, taken
from fl_dp.engine.tracing.known_layers import mixing_layers
from fl_dp.engine.tracing.state import State, Written
from fl_dp.engine.tracing.synthetic import NUM_EXAMPLES, Synthetic
from fl_dp.engine.tracing.writes import Held, differing, held, parameters_kept, written_to
from fl_dp.errors import CallError, ModelError, ProbeError

# Which of the three examples are in a batch, and in which order. Each example changes its place, is left out,
# and is in small and large batches, of odd and of even size.
_BATCHES = (
    (2, 0, 1),
    (1,),
    (2, 1),
    (0, 2, 0, 1, 1),
    (1, 2, 2, 0, 1, 0, 0, 2, 1, 1, 0, 2, 2, 1, 0, 1, 2),
)
_ONE_BATCH = ((1, 2, 0, 0),)  # for what the first random numbers may have hidden


@dataclass(frozen=True, slots=True)
class Seen:
    """What `check_independence` saw, for the checks after it.

    examples: paths of the outputs that hold examples: their first dimension is the batch. outputs: of the
    batch, without their graph; watch: what it drew. beside_another: its outputs with another first example.
    """

    examples: frozenset[str]
    outputs: Outputs
    watch: Watch
    beside_another: Outputs


def check_independence(
    model: nn.Module,
    parameters: Mapping[str, Tensor],
    batch: Synthetic,
    *,
    clears: bool = False,
    seed: int = SEED,
) -> Seen:
    """The same batch again, then each example in turn replaced by another one.

    The outputs of all others must not change, and the model must hold nothing else afterwards. Losses may be
    made of any output. So the first dimension of an output that depends on data must be the batch, else
    ModelError is raised. An output that depends on parameters alone (a temperature) may have any shape. seed:
    of all random numbers. clears: attributes may hold data if no output depends on them; training clears them
    after each pass. Raises ProbeError if examples influence one another, or stay in the model.
    """
    watch, state = Watch(seed), State(model)
    at_first = state.look()
    with parameters_kept(model, parameters) as check_parameters:
        before = call(model, parameters, batch, watch)
        check_parameters()
        _check_numbers(before)
        in_attributes = held(model)
        examples = frozenset(p for p, out in before.items() if out.dim() and len(out) == NUM_EXAMPLES)
        beside_another: Outputs = {}
        for example in (None, *range(NUM_EXAMPLES)):
            change = again(batch) if example is None else batch.with_other(example)
            after = call(model, parameters, change.batch, Watch(seed))
            found = _moved(before, after, change, examples)
            if found and example is not None:  # unless two equal calls differ by chance
                same_again = call(model, parameters, change.batch, Watch(seed))
                differs = _moved(after, same_again, again(batch), examples)
                example = None if differs else example
            if found:
                raise remembers(at_first.changes(state.look())) if example is None else _depends(found, model)
            _check_attributes(in_attributes, model, clears=clears)
            beside_another = after if example == 0 else beside_another
        if written := at_first.changes(now := state.look()):
            at_first.put_back(now)  # so that this call cannot read what the first one has kept
            anew = call(model, parameters, change.batch, Watch(seed))
            if _moved(after, anew, again(batch), examples):
                raise remembers(written)
            _check_attributes(in_attributes, model, clears=clears)
        check_parameters()
    if not examples:
        raise ModelError(
            f"The model returned no tensor of shape ({NUM_EXAMPLES}, ...): nothing leads with the batch. "
            "Tensors are found in tuples, lists, mappings and dataclasses."
        )
    return Seen(examples, _detached(before), watch, beside_another)


def _moved(before: Outputs, after: Outputs, change: Change, examples: frozenset[str]) -> Moved | None:
    return moved(before, after, change, lambda a, b, _: same(a, b), NUM_EXAMPLES, examples)


def _check_attributes(before: Held, model: nn.Module, *, clears: bool) -> None:
    for path in () if clears else differing(before, held(model)):
        raise written_to(Written(path, "attribute", lasts=False), model)


def _check_numbers(outputs: Outputs) -> None:
    for path, output in outputs.items():
        if bool(output.isnan().any()):
            raise ModelError(
                f"Output {path} holds NaN for synthetic examples of normal numbers, so nothing can be "
                "checked; wrap the model in a module that brings its inputs into their range."
            )


def remembers(written: Sequence[Written]) -> ProbeError:
    """The error for a model that reads what an earlier call has `written`."""
    what = f" It writes to {written[0].kind} {written[0].path}." if written else ""
    return ProbeError(
        "Two calls on the same batch gave different outputs: the model remembers data of earlier batches, "
        "which no noise protects, or draws random numbers elsewhere than from torch. A schedule belongs "
        f"outside of forward, between steps.{what}"
    )


def _depends(found: Moved, model: nn.Module) -> ModelError | ProbeError:
    if found.way == "structure":
        return ModelError("The model returned another structure for other data; wrap it so that it does not.")
    if found.way == "constant":
        return ModelError(
            f"Expected every output that depends on data to be of shape ({NUM_EXAMPLES}, ...), one row for "
            f"each of {NUM_EXAMPLES} examples; output {found.path} has shape {found.before}. Return what "
            'the losses are made of, batch first, and take losses outside the model (reduction="none").'
        )
    if found.way == "shape":
        return ProbeError(
            "The shape of one example's output depends on another example of the batch: "
            f"{found.before}, then {found.after}. Keep it fixed, for example by "
            "pad_packed_sequence(..., total_length=inputs.shape[1])."
        )
    return ProbeError(
        "One example's output depends on another example of the batch; no clipping bounds what such an "
        f"example contributes. {mixing_layers(model)}"
    )


def check_places(model: nn.Module, parameters: Mapping[str, Tensor], batch: Synthetic, seen: Seen) -> None:
    """Call the model on other batches of the same examples: each example must give the same output again.

    Random numbers are the same in all places (`draws`), so that only the place itself can matter. Raises
    ProbeError.
    """
    if not seen.watch.drew:
        _check_batches(model, parameters, batch, seen, _BATCHES, LEVELS[0])
        return
    for level in LEVELS:
        watch = Watch(SEED + 1, level)
        outputs = _detached(call(model, parameters, batch, watch))
        at_level = replace(seen, outputs=outputs, watch=watch)
        batches = _BATCHES if level == LEVELS[0] else _ONE_BATCH
        _check_batches(model, parameters, batch, at_level, batches, level)


def _check_batches(
    model: nn.Module,
    parameters: Mapping[str, Tensor],
    batch: Synthetic,
    seen: Seen,
    batches: tuple[tuple[int, ...], ...],
    level: float,
) -> None:
    """A batch of one that the model cannot process is skipped: group norms of a 1 x 1 map cannot."""
    for rows in batches:
        change = taken(batch, rows)
        # Each batch has its own seed: so a state that the model kept from an earlier call is seen.
        watch = Watch(SEED + 1 + len(rows), level)
        try:
            after = _detached(call(model, parameters, change.batch, watch))
        except CallError:
            if len(rows) == 1:
                continue
            raise
        # Other sizes use other kernels, whose rounding a deep model may enlarge. The scale is the largest
        # entry of all examples: an example alone may have a small output by chance.
        alike = partial(same, tolerance=max(seen.watch.eps, watch.eps) ** 0.5)
        if moved(seen.outputs, after, change, alike, NUM_EXAMPLES, seen.examples):
            raise ProbeError(
                "An example's output depends on its place in the batch, or on how many examples there are "
                f"(seen with {len(rows)}): one more example would then change the outputs of all others. Let "
                "the model treat every row alike, and draw random numbers from torch's global generator "
                "alone."
            )


def _detached(outputs: Outputs) -> Outputs:
    """Without the graph, which holds the activations of all examples."""
    return {path: output.detach() for path, output in outputs.items()}
