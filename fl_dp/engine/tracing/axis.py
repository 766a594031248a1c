"""Where each example's rows are in a tensor of many rows; the losses of synthetic examples show it."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.graph import Node

from fl_dp.engine.tracing.capture import OperatorKey, Use, UseKey, find_uses, output_grads
from fl_dp.errors import ProbeError


@dataclass(frozen=True, slots=True)
class BatchAxis:
    """Dimension `dim` holds N * K rows, K for each of the N examples.

    minor=False: an example's rows are adjacent (N, K), as after flattening (N, T, d) to (N*T, d).
    minor=True: they are N apart (K, N), as after flattening (T, N, d).
    single=True: the axis was seen only with K = 1, for which both orders are the same; other K are refused.
    between: (K1, K2) if the rows are (K1, N, K2), as after flattening (K1, N, K2, d); other K are refused,
    because K alone does not determine K1.
    """

    dim: int = 0
    minor: bool = False
    single: bool = False
    between: tuple[int, int] | None = None

    def split(self, tensor: Tensor, num_examples: int) -> Tensor:
        """`tensor` as (N, K, *other dimensions in their order)."""
        rows = tensor.movedim(self.dim, 0) if self.dim else tensor
        before, after = self._rows_around(rows.shape[0], num_examples)
        if before == 1:
            return rows.reshape(num_examples, after, *rows.shape[1:])
        if after == 1:
            return rows.reshape(before, num_examples, *rows.shape[1:]).transpose(0, 1)
        blocks = rows.reshape(before, num_examples, after, *rows.shape[1:])
        return blocks.transpose(0, 1).flatten(1, 2)

    def owners(self, num_rows: int, num_examples: int, device: torch.device) -> Tensor:
        """(rows,) which example each row of dimension `dim` belongs to."""
        _, after = self._rows_around(num_rows, num_examples)
        return torch.arange(num_rows, device=device) // max(1, after) % num_examples

    def _rows_around(self, num_rows: int, num_examples: int) -> tuple[int, int]:
        """(K1, K2) of rows that are (K1, N, K2)."""
        if num_rows % num_examples:
            raise ProbeError(
                f"A tensor has {num_rows} rows in dimension {self.dim}, not a multiple of the {num_examples} "
                "examples in the batch; every trainable layer must treat every example alike. Pass the "
                "losses of each call to a virtual_step of its own; average token losses over each example, "
                "by losses.view(N, -1).mean(1)."
            )
        per_example = num_rows // num_examples
        if self.between:
            self._check(per_example, math.prod(self.between))
            return self.between
        if self.single and per_example > 1:
            self._check(per_example, 1)
        return (per_example, 1) if self.minor else (1, per_example)

    def _check(self, per_example: int, checked: int) -> None:
        if per_example != checked:
            raise ProbeError(
                f"A tensor has {per_example} rows an example in dimension {self.dim}, but the model was "
                f"checked with {'one' if checked == 1 else checked}, which does not tell how they are "
                f"ordered; check it on {'longer inputs' if checked == 1 else 'inputs of this size'}. Several "
                "views of an example go into the model as (N, K, ...) and are flattened inside its forward."
            )


LEADING = BatchAxis()


Masks = tuple[Tensor, ...]  # one for each example: the entries of an output that matter to its own loss


@dataclass(frozen=True, slots=True)
class ExampleRows:
    """Where the examples' rows are in the uses of one graph.

    unknown: uses for which several axes fit, because some example's loss reaches nothing there.
    """

    uses: tuple[Use, ...]
    batch: Mapping[UseKey, BatchAxis]
    shared: frozenset[OperatorKey]
    unknown: tuple[UseKey, ...]


def find_example_rows(
    losses: Tensor, parameters: Mapping[str, Tensor], shared: frozenset[OperatorKey] = frozenset()
) -> ExampleRows:
    """Find the batch axis of every use; skip operators in whose output no example has its own rows.

    There are two kinds of such operators. Some work on parameters alone (W + B @ A), so that every example's
    loss reaches the whole output. Others work on rows that data picked (x[mask]), so that an example's rows
    are not in one place. They are not uses: the search goes on to the next operator above them in whose
    output every example has its own rows, and that operator is the use.

    The search ends at the losses at the latest, where every example has its own row. The gradient of a
    parameter that is used there takes one backward call for each example.

    losses: (N,) of a few examples. A round of the search takes one backward pass for each of them; every
    round but the last skips the lowest such operators. shared: those that are already known.
    """
    while True:
        uses = find_uses(losses, parameters, shared)
        reached = _by_key(uses, _reached(losses, uses))
        fitting = {key: _fitting(masks) for key, masks in reached.items()}
        mixed = [use for use in uses if any(fitting.get(key) == [] for key in use.keys)]
        if not mixed:
            break
        lowest = [use for use in mixed if use.frontier] or mixed[:1]  # uses are in the order of the graph
        shared |= {frozenset(use.keys) for use in lowest}
    batch = {key: axes[0] for key, axes in fitting.items()}
    unknown = tuple(key for key, axes in fitting.items() if len(axes) > 1 and not _complete(reached[key]))
    return ExampleRows(uses, batch, shared, unknown)


def _reached(losses: Tensor, uses: tuple[Use, ...]) -> dict[Node, Masks]:
    """For every use that matters to any loss, the entries that each example's loss reaches."""
    found: dict[Node, dict[int, Tensor]] = defaultdict(dict)
    for example in range(len(losses)):

        def note(use: Use, grad: Tensor, example: int = example) -> None:
            # 0 / 0: what a normalisation makes of the others' gradients, which are zero
            found[use.node][example] = (grad != 0) & ~grad.isnan()

        output_grads(losses[example : example + 1], uses, note, retain_graph=True)
    return {
        node: tuple(masks.get(n, torch.zeros_like(next(iter(masks.values())))) for n in range(len(losses)))
        for node, masks in found.items()
    }


def _by_key(uses: Iterable[Use], reached: Mapping[Node, Masks]) -> dict[UseKey, list[Masks]]:
    by_key: dict[UseKey, list[Masks]] = defaultdict(list)
    for use in uses:
        if use.node in reached:
            for key in use.keys:
                by_key[key].append(reached[use.node])
    return by_key


def _fitting(uses: list[Masks]) -> list[BatchAxis]:
    """All axes along which no example reaches another's rows, in all uses of one key; the likeliest first.

    An axis (K1, N, K2) is tried only if no simpler one fits.
    """
    dims = range(min(masks[0].dim() for masks in uses))
    simple = [axis for dim in dims for axis in _simple(dim, uses)]
    fitting = [axis for axis in simple if all(_fits(axis, masks) for masks in uses)]
    if fitting:
        return fitting
    return [axis for dim in dims for axis in _between(dim, uses) if all(_fits(axis, m) for m in uses)]


def _simple(dim: int, uses: list[Masks]) -> list[BatchAxis]:
    single = all(masks[0].shape[dim] == len(masks) for masks in uses)
    return [BatchAxis(dim, False, True)] if single else [BatchAxis(dim, False), BatchAxis(dim, True)]


def _between(dim: int, uses: list[Masks]) -> list[BatchAxis]:
    """All (K1, N, K2) with the same K in all uses."""
    numbers = {masks[0].shape[dim] / len(masks) for masks in uses}
    number = numbers.pop()
    if numbers or number % 1:
        return []
    return [
        BatchAxis(dim, between=(int(number) // after, after))
        for after in range(2, int(number) // 2 + 1)
        if number % after == 0
    ]


def _complete(uses: list[Masks]) -> bool:
    """Whether every example reaches something in every use: then the likeliest axis that fits is right."""
    return all(bool(mask.any()) for masks in uses for mask in masks)


def _fits(axis: BatchAxis, masks: Masks) -> bool:
    if masks[0].shape[axis.dim] % len(masks):
        return False
    for example, mask in enumerate(masks):
        reached = axis.split(mask, len(masks)).flatten(1).any(1)  # (N,) whose rows this example reaches
        reached[example] = False
        if bool(reached.any()):
            return False
    return True
