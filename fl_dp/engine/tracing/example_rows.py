"""Which rows are which example's, in the output of every use: seen from the losses of synthetic examples."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.graph import Node

from fl_dp.engine.tracing.axis import BatchAxis
from fl_dp.engine.tracing.capture import OperatorKey, Use, UseKey, find_uses, output_grads

Masks = tuple[Tensor, ...]  # one for each example: the entries of an output that matter to its own loss


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the examples are in the uses of one graph.

    unknown: uses that fit several layouts, as some example's loss reached nothing there.
    """

    uses: tuple[Use, ...]
    batch: Mapping[UseKey, BatchAxis]
    shared: frozenset[OperatorKey]
    unknown: tuple[UseKey, ...]


def find_layout(
    losses: Tensor, parameters: Mapping[str, Tensor], shared: frozenset[OperatorKey] = frozenset()
) -> Layout:
    """Tell uses from operators whose rows are nobody's: these come into the gradient of a later operator.

    Such operators work on parameters alone (W + B @ A), where every example's loss reaches the whole
    output, or on rows that data picked (x[mask]), where an example's rows are not in one place. The
    next operator of which every example has rows of its own is then the use.

    The losses themselves are the last: what is found there is one backward pass for each example.

    losses: (N,) of a few examples; one backward pass each, and again for every such operator that
    rests on another one. shared: such operators that are known already.
    """
    while True:
        uses = find_uses(losses, parameters, shared)
        reached = _by_key(uses, _reached(losses, uses))
        fitting = {key: _fitting(masks) for key, masks in reached.items()}
        mixed = [use for use in uses if any(fitting.get(key) == [] for key in use.keys)]
        if not mixed:
            break
        lowest = [use for use in mixed if use.frontier] or mixed[:1]  # uses come in the order of the graph
        shared |= {frozenset(use.keys) for use in lowest}
    axes = {key: layouts[0] for key, layouts in fitting.items()}
    unknown = tuple(
        key for key, layouts in fitting.items() if len(layouts) > 1 and not _complete(reached[key])
    )
    return Layout(uses, axes, shared, unknown)


def _reached(losses: Tensor, uses: tuple[Use, ...]) -> dict[Node, Masks]:
    """For every use that matters to any loss."""
    found: dict[Node, dict[int, Tensor]] = defaultdict(dict)
    for example in range(len(losses)):

        def note(use: Use, grad: Tensor, example: int = example) -> None:
            found[use.node][example] = grad != 0

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
    """All layouts, the likeliest first, in which every example's rows are its own, in all uses of one key."""
    fitting = []
    for dim in range(uses[0][0].dim()):
        single = all(masks[0].shape[dim] == len(masks) for masks in uses)
        layouts = [BatchAxis(dim, False, True)] if single else [BatchAxis(dim, False), BatchAxis(dim, True)]
        fitting += [axis for axis in layouts if all(_fits(axis, masks) for masks in uses)]
    return fitting


def _complete(uses: list[Masks]) -> bool:
    """Whether every example reaches something, everywhere: then the likeliest layout that fits is right."""
    return all(bool(mask.any()) for masks in uses for mask in masks)


def _fits(axis: BatchAxis, masks: Masks) -> bool:
    if masks[0].shape[axis.dim] % len(masks):
        return False
    for example, mask in enumerate(masks):
        owners = axis.split(mask, len(masks)).flatten(1).any(1)
        owners[example] = False
        if bool(owners.any()):
            return False
    return True
