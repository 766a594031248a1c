"""Does an example's output depend on its place in the batch, on the other examples, or on their number?

If it does, one record more or less changes the gradients of all others: it shifts their places, and makes the
batch larger.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from fl_dp.engine.precision import full_precision
from fl_dp.engine.tracing.draws import LEVELS, Watch
from fl_dp.engine.tracing.independence import SEED, Outputs, call, same
from fl_dp.engine.tracing.structure import tensors
from fl_dp.engine.tracing.synthetic import Synthetic
from fl_dp.errors import CallError, ProbeError

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


def check_places(
    model: nn.Module, parameters: Mapping[str, Tensor], batch: Synthetic, examples: frozenset[str]
) -> None:
    """Call the model on other batches of the same examples: each example must give the same output again.

    Random numbers are the same in all places (`draws`), so that only the place itself can matter. A batch of
    one that the model cannot process is skipped: group norms of a 1 x 1 map cannot.

    examples: paths of the outputs that hold examples. Raises ProbeError.
    """
    random = _check_batches(model, parameters, batch, examples, _BATCHES, LEVELS[0])
    for level in LEVELS[1:] if random else ():
        _check_batches(model, parameters, batch, examples, _ONE_BATCH, level)


def _check_batches(
    model: nn.Module,
    parameters: Mapping[str, Tensor],
    batch: Synthetic,
    examples: frozenset[str],
    batches: tuple[tuple[int, ...], ...],
    level: float,
) -> bool:
    """Whether the model draws random numbers. All entries of a draw are equal (`level`)."""
    with full_precision(_device(batch)):
        first = Watch(SEED + 1, level)
        before = _detached(call(model, parameters, batch, first))
        for rows in batches:
            # Each batch has its own seed: so a state that the model kept from an earlier call is seen.
            watch = Watch(SEED + 1 + len(rows), level)
            try:
                after = _detached(call(model, parameters, batch.rows(rows), watch))
            except CallError:
                if len(rows) == 1:
                    continue
                raise
            _check_batch(before, after, rows, examples, max(first.eps, watch.eps) ** 0.5)
    return first.drew


def _detached(outputs: Outputs) -> Outputs:
    """Without the graph, which holds the activations of all examples."""
    return {path: output.detach() for path, output in outputs.items()}


def _device(batch: Synthetic) -> torch.device:
    return next(tensor.device for _, tensor in tensors((batch.args, batch.kwargs)) if tensor.dim())


def _check_batch(
    before: Outputs, after: Outputs, rows: tuple[int, ...], examples: frozenset[str], tolerance: float
) -> None:
    """tolerance: other sizes use other kernels, whose rounding a deep model may enlarge."""
    for path, output in before.items():
        found = after.get(path)
        if path in examples:
            alike = found is not None and _same_rows(output, found, rows, tolerance)
        else:
            alike = found is not None and (found.shape != output.shape or same(output, found, tolerance))
        if not alike:
            raise ProbeError(
                "An example's output depends on its place in the batch, or on how many examples there are "
                f"(seen with {len(rows)}): one example more would then change those of all others. Let the "
                "model treat every row alike, and draw random numbers from torch's global generator alone."
            )


def _same_rows(output: Tensor, found: Tensor, rows: tuple[int, ...], tolerance: float) -> bool:
    if found.shape != (len(rows), *output.shape[1:]):
        return False
    expected = output[list(rows)]
    # The largest entry of all examples is the scale: an example alone may have a small output by chance.
    return same(torch.cat([expected, output]), torch.cat([found, output]), tolerance)
