"""One backward pass over a batch; for each parameter, the norms and what the weighted sum will need."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge
from torch.utils.checkpoint import GraphExecGroup

from fl_dp.engine.gradients.convolution import Conv
from fl_dp.engine.gradients.fallback import masked_grads, pull_back
from fl_dp.engine.gradients.kept import Kept
from fl_dp.engine.gradients.layouts import Dense, GradientLayout
from fl_dp.engine.gradients.outer_products import Outer
from fl_dp.engine.gradients.settled import Settled
from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.engine.rule_table import check_rules, layout_of
from fl_dp.engine.saved import SavedNode
from fl_dp.engine.tracing.axis import LEADING, BatchAxis
from fl_dp.engine.tracing.capture import (
    Argument,
    OperatorKey,
    Use,
    UseKey,
    changed_grads,
    find_uses,
    graph_of,
    output_grads,
)
from fl_dp.engine.tracing.ownership import OwnerCheck
from fl_dp.errors import ModelError, ProbeError, UnseenUseError


@dataclass(frozen=True, slots=True)
class Axes:
    """What `probe` found out about a model: how to tell each example's part of every use.

    batch: where the examples are in the output of each use. shared: operators whose output rows belong
    to no single example, such as W + B @ A. fallback: uses that no rule covers; their gradients are
    computed exactly but slowly. owners: compares real batches with `batch`. It remembers what it has
    checked, so keep the same Axes from step to step. by_loss: rows cannot be assigned to examples, for
    example with packed sequences; each loss then has its own backward pass, and the other fields are unused.
    """

    batch: Mapping[UseKey, BatchAxis]
    shared: frozenset[OperatorKey] = frozenset()
    fallback: frozenset[UseKey] = frozenset()
    owners: OwnerCheck = field(default_factory=OwnerCheck, compare=False, repr=False)
    by_loss: bool = False

    def reporting(self, report: Callable[[ProbeError], None]) -> "Axes":
        """The same, but a real batch that fails the check is reported to `report`, and training continues.

        For steps that are paid for: nothing that depends on data may end them.
        """
        return replace(self, owners=replace(self.owners, report=report))


@torch.no_grad()
def keep_gradients(
    losses: Tensor,
    parameters: Mapping[str, Tensor],
    axes: Axes | None,
    chooser: KernelChooser,
    *,
    retain_graph: bool = False,
    settle: bool = True,
) -> dict[str, Kept]:
    """Norms, and what the weighted sum needs, of every parameter that the losses depend on.

    settle: whether output gradients may be moved in memory, see `Settled`.
    """
    num_examples = losses.shape[0]
    graph = graph_of(losses)
    uses = find_uses(losses, parameters, axes.shared if axes else frozenset(), graph)
    if axes and axes.by_loss:
        return _each_loss_by_itself(losses, parameters, chooser)
    if not uses and num_examples:
        raise ModelError(
            "The losses depend on no parameter that is trained: call the model itself, with its own "
            "parameters (functional_call with copies of them trains the copies)."
        )
    slow = axes.fallback if axes else frozenset()
    if axes is None:
        check_rules(uses)
    for argument in (argument for use in uses for argument in use.arguments):
        _axis(argument.key, axes, num_examples)  # raises while the graph is whole
    watched = axes.owners.begin(losses, uses, axes.batch, graph) if axes else None
    arriving, group = _Arriving(chooser, uses), GraphExecGroup()
    # Inputs whose gradients need further backward calls, made after the one pass.
    later: list[tuple[Use, Argument, Tensor | GradientLayout, BatchAxis]] = []

    def on_grad(use: Use, grad: Tensor) -> None:
        if watched:
            watched.note(use, grad)
        node = SavedNode(use.node, group)
        # For the lowest uses, autograd itself holds the gradients until all are there.
        settled = Settled(grad) if settle and not use.frontier else None
        for argument in use.arguments:
            axis = _axis(argument.key, axes, num_examples)
            if argument.key in slow:
                later.append((use, argument, grad, axis))
                continue
            layout = layout_of(node, use, argument, grad, axis, num_examples)
            if argument.path is None:
                later.append((use, argument, layout, axis))
            else:
                # Moving gained nothing for convolutions, and for a moment there would be two copies.
                moving = None if isinstance(layout, Conv) else settled
                arriving.add(argument.key.parameters[0], layout, moving)

    output_grads(losses, uses, on_grad, retain_graph=retain_graph or bool(slow))
    if axes:  # before any further backward call: errors there may be the fault of examples that mix
        axes.owners.end(watched)
    # No gradient passes a use: each use's own rule computes the gradients of what is below.
    with changed_grads(uses if later else (), torch.zeros_like):
        for use, argument, found, axis in later:
            names = argument.key.parameters
            if isinstance(found, GradientLayout):
                grads = found.instantiate().view(-1, *argument.shape)
            else:
                grads = masked_grads(use, argument, found, axis, num_examples)
            # What a rule has computed may be a view of memory that autograd holds.
            ours = not isinstance(found, Dense)
            for name, pulled in pull_back(argument.edge, grads, parameters, names, overwrite=ours).items():
                arriving.add(name, Dense(pulled))
    return arriving.finished()


def _each_loss_by_itself(
    losses: Tensor, parameters: Mapping[str, Tensor], chooser: KernelChooser
) -> dict[str, Kept]:
    """The definition, at the cost of a whole backward pass for each example. The graph is kept."""
    if losses.grad_fn is None:
        return {}
    edge = GradientEdge(losses.grad_fn, losses.output_nr)
    pulled = pull_back(edge, torch.eye(len(losses)).to(losses), parameters, tuple(parameters))
    return {name: chooser.keep(name, Dense(grads)) for name, grads in pulled.items()}


class _Arriving:
    """The layouts of each parameter's uses, as they arrive during the backward pass.

    When the last use of a parameter has arrived, its kernel keeps what it needs, and the layer's
    gradient is freed.
    """

    def __init__(self, chooser: KernelChooser, uses: tuple[Use, ...]) -> None:
        self._chooser = chooser
        self._missing = Counter(name for use in uses for key in use.keys for name in key.parameters)
        self._layouts = defaultdict[str, list[GradientLayout]](list)
        self._kept: dict[str, Kept] = {}

    def add(self, name: str, layout: GradientLayout, settled: Settled | None = None) -> None:
        """settled: the output gradient that the layout is made of, if it is freed when no kernel keeps it."""
        self._layouts[name].append(layout)
        self._missing[name] -= 1
        if self._missing[name] == 0:
            self._keep(name)
            if settled is not None:
                self._kept[name] = settled(self._kept[name])

    def finished(self) -> dict[str, Kept]:
        """Everything that was kept. Uses that do not affect the losses never arrive."""
        for name in list(self._layouts):
            self._keep(name)
        return self._kept

    def _keep(self, name: str) -> None:
        layout = _joined(self._layouts.pop(name))
        self._kept[name] = self._chooser.keep(name, layout)


def _joined(layouts: list[GradientLayout]) -> GradientLayout:
    """One layout for all uses of a parameter, so that the cross terms between its uses count."""
    if len(layouts) == 1:
        return layouts[0]
    outer = [layout for layout in layouts if isinstance(layout, Outer)]
    if len(outer) == len(layouts) and len({layout.shape for layout in outer}) == 1:
        return Outer.joined(outer)
    total = layouts[0].instantiate()
    for layout in layouts[1:]:
        total = total + layout.instantiate().view_as(total)
    return Dense(total)


def _axis(key: UseKey, axes: Axes | None, num_examples: int) -> BatchAxis:
    if axes is None or num_examples == 1:  # all rows belong to the only example, wherever they are
        return LEADING
    axis = axes.batch.get(key)
    if axis is None:
        raise UnseenUseError(
            f"{key} was not used in this way when the model was checked, so the engine does not know which "
            "rows belong to which example. What losses compute from parameters, such as a gradient penalty, "
            "belongs inside the model's forward; for an L2 term use the optimizer's weight_decay. A layer "
            "that is seldom used must be used in the first pass, which is checked."
        )
    return axis
