"""One backward pass over a batch: for each parameter, the norms and what the weighted sum will need."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fl_dp.engine.gradients.fallback import masked_grads, pull_back
from fl_dp.engine.gradients.layouts import Dense, Form, Kept, Outer
from fl_dp.engine.kernel_choice.chooser import Planner
from fl_dp.engine.rules import check_rules, form_of
from fl_dp.engine.tracing.axis import LEADING, BatchAxis
from fl_dp.engine.tracing.capture import Argument, OperatorKey, Use, UseKey, find_uses, output_grads
from fl_dp.engine.tracing.graph import graph_of
from fl_dp.engine.tracing.ownership import OwnerCheck
from fl_dp.errors import ProbeError


@dataclass(frozen=True, slots=True)
class Axes:
    """What `probe` found out about a model: how to tell each example's part of every use.

    batch: where the examples are in the output of each use. shared: operators whose rows are nobody's,
    such as W + B @ A. fallback: uses that no rule covers, to be answered exactly and slowly.
    owners: holds real batches against `batch`; remembers, so keep the same Axes from step to step.
    """

    batch: Mapping[UseKey, BatchAxis]
    shared: frozenset[OperatorKey] = frozenset()
    fallback: frozenset[UseKey] = frozenset()
    owners: OwnerCheck = field(default_factory=OwnerCheck, compare=False, repr=False)


@torch.no_grad()
def keep_gradients(
    losses: Tensor,
    parameters: Mapping[str, Tensor],
    axes: Axes | None,
    planner: Planner,
    *,
    retain_graph: bool = False,
) -> dict[str, Kept]:
    """Norms, and what the weighted sum needs, of every parameter that the losses depend on."""
    num_examples = losses.shape[0]
    graph = graph_of(losses)
    uses = find_uses(losses, parameters, axes.shared if axes else frozenset(), graph)
    slow = axes.fallback if axes else frozenset()
    if axes is None:
        check_rules(uses)
    else:
        axes.owners(losses, uses, axes.batch, graph)
    book = _Book(planner, uses)
    later: list[tuple[Use, Argument, Tensor | Form, BatchAxis]] = []

    def on_grad(use: Use, grad: Tensor) -> None:
        for argument in use.arguments:
            axis = _axis(argument.key, axes, num_examples)
            if argument.key in slow:
                later.append((use, argument, grad, axis))
                continue
            form = form_of(use, argument, grad, axis, num_examples)
            if argument.path is None:
                later.append((use, argument, form, axis))
            else:
                book.enter(argument.key.parameters[0], form)

    output_grads(losses, uses, on_grad, retain_graph=retain_graph or bool(slow))
    for use, argument, found, axis in later:
        names = argument.key.parameters
        if isinstance(found, Form):
            grads = found.instantiate().view(-1, *argument.shape)
        else:
            grads = masked_grads(use, argument, found, axis, num_examples)
        for name, pulled in pull_back(argument.edge, grads, parameters, names).items():
            book.enter(name, Dense(pulled))
    return book.closed()


class _Book:
    """Forms by parameter as they arrive, kept (and their layer's gradient freed) as soon as all are there."""

    def __init__(self, planner: Planner, uses: tuple[Use, ...]) -> None:
        self._planner = planner
        self._left = Counter(name for use in uses for key in use.keys for name in key.parameters)
        self._forms = defaultdict[str, list[Form]](list)
        self._kept: dict[str, Kept] = {}

    def enter(self, name: str, form: Form) -> None:
        self._forms[name].append(form)
        self._left[name] -= 1
        if self._left[name] == 0:
            self._keep(name)

    def closed(self) -> dict[str, Kept]:
        """All that was kept; some uses may not matter to the losses, and then never arrive."""
        for name in list(self._forms):
            self._keep(name)
        return self._kept

    def _keep(self, name: str) -> None:
        form = _joined(self._forms.pop(name))
        self._kept[name] = self._planner.keep(name, form)


def _joined(forms: list[Form]) -> Form:
    """One form for all uses of a parameter; their cross terms count."""
    if len(forms) == 1:
        return forms[0]
    outer = [form for form in forms if isinstance(form, Outer)]
    if len(outer) == len(forms) and len({form.shape for form in outer}) == 1:
        return Outer.joined(outer)
    total = forms[0].instantiate()
    for form in forms[1:]:
        total = total + form.instantiate().view_as(total)
    return Dense(total)


def _axis(key: UseKey, axes: Axes | None, num_examples: int) -> BatchAxis:
    if axes is None or num_examples == 1:  # all rows are the one example's, wherever they are
        return LEADING
    axis = axes.batch.get(key)
    if axis is None:
        raise ProbeError(
            f"{key} was not used in this way when the model was checked at the start; "
            "the engine does not know which rows belong to which example."
        )
    return axis
