"""Checks on a real batch that each row of a use belongs to the example that `probe` found.

`probe` learns from three synthetic examples where each example's rows are. But data can move rows (x[mask],
sorting, mixtures of experts), and the user's losses can mix examples (a contrastive loss, a mean). Synthetic
examples need not show either. Here the losses of a real batch are multiplied by powers of two, which scale
gradients without rounding, unless a number underflows. If a row belongs only to its example's loss, its
gradient scales by the same power.

A backward function may also clamp or normalise gradients (straight-through estimators, hooks). Then nothing
scales, and the definition itself is tried: a row must stay the same whatever other examples' losses weigh.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor
from torch.autograd.graph import Node

from fl_dp.engine.tracing.axis import BatchAxis
from fl_dp.engine.tracing.capture import Graph, Use, UseKey, graph_of, output_grads
from fl_dp.errors import ProbeError

# Operators that may move rows to places that depend on data. Operators written in Python also count.
_MOVERS = frozenset(
    f"{name}Backward{overload}"
    for name in (
        "Embedding",
        "Gather",
        "Index",
        "IndexAdd",
        "IndexCopy",
        "IndexFill",
        "IndexPut",
        "IndexReduce",
        "IndexSelect",
        "MaskedScatter",
        "MaskedSelect",
        "PackPaddedSequence",
        "Put",
        "Scatter",
        "ScatterAdd",
        "ScatterReduce",
        "SegmentReduce",
        "Sort",
        "Take",
        "Topk",
    )
    for overload in range(2)
)
_WEIGHTS = 8  # 1, 2, ..., 128
_WIDE_AT_A_TIME = 2**17  # numbers that are held in double precision at a time, 1 MiB
_MUCH = 2.0**20  # enough to reach the bounds of most clamps
_OTHERS = (-(2.0**10), -(2.0**-10))  # a clamp hides what grows, a normalisation all but the sign
_SKETCH = 2  # random projections of a row: rows that differ by a tenth agree in both once in 10^4
_TOLERANCE = 1e-3  # relative to a row's length; two different weights differ by a factor of at least two

# For each use: (N, K) lengths of its gradient's rows, and the least length that scales exactly.
_Found = dict[tuple[Node, UseKey], tuple[Tensor, float]]


@dataclass
class OwnerCheck:
    """Remembers the graphs that were checked, so that a model of fixed shape is checked only once.

    A graph is recognised by its operators in order and by the number of rows that an example has in each use.
    If data may move rows above a use, the graph is checked in every batch, at the cost of one more backward
    pass, or two if it is in `nonlinear`: its gradients do not scale with the losses. is_nonlinear: the model
    was seen to be so on synthetic examples, so that all its graphs are.

    report: called with the error of a batch that fails, instead of raising it. It is for steps that are paid
    for, after which nothing that depends on data may end a round: keep the reports on the client. Then no
    graph is found to be nonlinear: how many passes are taken must not depend on data.
    """

    known: set[int] = field(default_factory=set)
    nonlinear: set[int] = field(default_factory=set)
    is_nonlinear: bool = False
    report: Callable[[ProbeError], None] | None = None

    @property
    def found_nonlinear(self) -> bool:
        return self.is_nonlinear or bool(self.nonlinear)

    def begin(
        self,
        losses: Tensor,
        uses: tuple[Use, ...],
        axes: Mapping[UseKey, BatchAxis],
        graph: Graph | None = None,
    ) -> "Comparison | None":
        """A comparison that watches the backward pass of this batch; None if there is nothing to check.

        It immediately takes weighted passes of its own; `losses` keep their graph. graph: that of `losses`,
        if it is known. Raises ProbeError for rows that cannot be split, and in a nonlinear graph for a row
        of another example, or reports it.
        """
        if losses.shape[0] < 2:
            return None
        graph = graph or graph_of(losses)
        signature = _signature(losses.shape[0], uses, axes, graph)
        known = signature in self.known
        if known and not data_may_move_rows(losses, uses, graph):
            return None
        try:
            if not self.is_nonlinear and signature not in self.nonlinear:
                comparison = Comparison(losses, uses, axes, signature)
                if known or self.report is not None or comparison.scales(losses, uses):
                    return comparison
                self.nonlinear.add(signature)
            _check_alone(losses, uses, axes, thorough=not known)
            self.known.add(signature)
        except ProbeError as error:
            self._tell(error, signature)
        return None

    def end(self, comparison: "Comparison | None") -> None:
        """After the backward pass: raises ProbeError for a row of another example, or reports it."""
        if comparison is None:
            return
        try:
            comparison.finish()
        except ProbeError as error:
            if self.report is None:  # if a clamp was reached only now, the next check passes
                self.nonlinear.add(comparison.signature)
            self._tell(error, comparison.signature)
        self.known.add(comparison.signature)

    def _tell(self, error: ProbeError, signature: int) -> None:
        """Report or raise. A graph that raised is not noted as known, so it is checked again."""
        if self.report is None:
            raise error
        self.report(error)
        self.known.add(signature)


def data_may_move_rows(losses: Tensor, uses: tuple[Use, ...], graph: Graph | None = None) -> bool:
    """Whether an operator that may move rows depending on data lies between some use and the losses."""
    graph = graph or graph_of(losses)
    movers = {node for node, operator in graph.items() if operator.name in _MOVERS or _is_python(node)}
    if not movers:
        return False
    above = {use.node for use in uses}  # uses, and all nodes with a use below
    for node, operator in graph.items():
        if any(child in above for child, _ in operator.inputs):
            if node in movers:
                return True
            above.add(node)
    return False


def _is_python(node: Node) -> bool:
    return isinstance(node, torch.autograd.function.BackwardCFunction)


class Comparison:
    """Whether each row of a use's gradient comes from the loss of the example named by `axes`.

    A weighted pass is taken first, and keeps the graph. `note` gets the results of the plain pass, which is
    taken anyway and may free the graph; then call `finish`. signature: identifies the graph.

    A single row of another example is overlooked with probability 1/8; many such rows are hardly ever
    overlooked together. Rows that are not finite are not checked, nor rows so short that underflow of their
    entries may have changed their length by the tolerance (`_least_length`). Underflow on the way to a row
    does not show in it: weights can be crafted that enlarge the error. So a check of steps that are paid for
    may report, but not raise (`OwnerCheck.report`).
    """

    def __init__(
        self, losses: Tensor, uses: tuple[Use, ...], axes: Mapping[UseKey, BatchAxis], signature: int = 0
    ) -> None:
        self.signature, self._num_examples, self._axes = signature, len(losses), axes
        exponents = torch.randint(0, _WEIGHTS, (len(losses),), generator=_generator())
        self._weights = (2.0**exponents).to(losses)
        self._plain: _Found = {}
        self._weighed = self._taken(losses, uses, self._weights)

    def scales(self, losses: Tensor, uses: tuple[Use, ...]) -> bool:
        """Whether a large factor of all losses scales all rows; takes another pass, which keeps the graph."""
        much = torch.full_like(self._weights, 2.0**8 if losses.dtype == torch.float16 else _MUCH)
        found = self._taken(losses, uses, much * self._weights)
        return all(_scaled(row, much, found[key][0]) for key, row in self._weighed.items())

    def note(self, use: Use, grad: Tensor) -> None:
        """The output gradient of `use` in the pass of the summed losses."""
        self._measure(self._plain, use, grad)

    def finish(self) -> None:
        """ProbeError, with the way out, if a row did not scale with the loss of its example."""
        for key, row in self._plain.items():
            if not _scaled(row, self._weights, self._weighed[key][0]):
                raise _mixed(key[1])

    def _taken(self, losses: Tensor, uses: tuple[Use, ...], weights: Tensor) -> _Found:
        found: _Found = {}
        with torch.no_grad():
            output_grads(losses, uses, partial(self._measure, found), weights=weights, retain_graph=True)
        return found

    def _measure(self, found: _Found, use: Use, grad: Tensor) -> None:
        for key in use.keys:
            if key in self._axes:
                rows = self._axes[key].split(grad, self._num_examples)
                rows = rows.reshape(*rows.shape[:2], -1)
                found[use.node, key] = (_lengths(rows), _least_length(rows))


def _scaled(row: tuple[Tensor, float], weights: Tensor, found: Tensor) -> bool:
    """Whether rows have the lengths `found` that follow from those before, times their examples' weights."""
    lengths, smallest = row
    expected = lengths * weights[:, None].to(lengths)
    judged = expected.isfinite() & found.isfinite() & (lengths > smallest)
    return not bool((judged & ((found - expected).abs() > _TOLERANCE * expected)).any())


def _mixed(key: UseKey) -> ProbeError:
    return ProbeError(
        f"{key}: in this batch some rows belong to other examples' losses than when the model was checked. "
        "Either the losses mix examples (each must depend on its own example alone); or a hook or a backward "
        "function does, such as a norm, a mean or a sort over the whole batch (let it work within each "
        "example: g.flatten(1).norm(dim=1) for g.norm()); or data decide where the model puts its rows "
        "(process such examples one at a time)."
    )


def _check_alone(
    losses: Tensor, uses: tuple[Use, ...], axes: Mapping[UseKey, BatchAxis], *, thorough: bool
) -> None:
    """ProbeError if a row changes with the losses of other examples. Assumes nothing of backward functions.

    The passes keep the graph. What hides another example's part: a function of it that keeps neither its size
    nor its sign. Rows that are not finite are not checked.
    """
    seed, plain = _generator().initial_seed(), dict[tuple[Node, UseKey], Tensor]()
    for weights in (torch.ones(len(losses)), *_patterns(len(losses), thorough)):
        own = (weights == 1.0).to(losses.device)

        def note(use: Use, grad: Tensor, own: Tensor = own) -> None:
            for key in set(use.keys) & axes.keys():
                found = _sketch(axes[key].split(grad, len(losses)), seed)
                before = plain.setdefault((use.node, key), found)
                error = (found - before)[own].abs()
                if bool((error > _TOLERANCE * before[own][..., :1]).any()):  # false for NaN
                    raise _mixed(key)

        with torch.no_grad():
            output_grads(losses, uses, note, weights=weights.to(losses), retain_graph=True)


def _sketch(rows: Tensor, seed: int) -> Tensor:
    """(N, K, 1 + `_SKETCH`) lengths and random projections of rows (N, K, ...); NaN if not finite."""
    flat = rows.reshape(*rows.shape[:2], -1)
    flat = torch.view_as_real(flat).flatten(2) if flat.is_complex() else flat
    flat = flat.to(torch.promote_types(flat.dtype, torch.float32))
    generator = torch.Generator().manual_seed(seed)
    directions = torch.randn(flat.shape[2], _SKETCH, generator=generator, dtype=flat.dtype).to(flat.device)
    sketch = torch.cat([flat.norm(dim=2, keepdim=True), flat @ directions], 2)
    return torch.where(sketch.isfinite(), sketch, torch.nan)


def _patterns(number: int, thorough: bool) -> Iterator[Tensor]:
    """Weights (N,), 1 for about half of the examples. thorough: for every two examples, i has the weight 1
    and j each weight of `_OTHERS` in some pattern, as their numbers differ in some binary digit. That takes
    4 log2(N) passes. Else two passes, which overlook a single misplaced row one time in two.
    """
    generator = _generator()
    numbers = torch.randperm(number, generator=generator)
    others = _OTHERS if thorough else [_OTHERS[int(torch.randint(2, (), generator=generator))]]
    for digit in range((number - 1).bit_length() if thorough else 1):
        for bit in range(2):
            for weight in others:
                yield torch.where((numbers >> digit) % 2 == bit, 1.0, weight)


def _lengths(rows: Tensor) -> Tensor:
    """(N, K) lengths of rows (N, K, d), in double precision. No square underflows or overflows.

    Squares of float32 numbers fit float64. Rows of float64 are divided by their largest entry first.
    """
    if rows.dtype not in (torch.float64, torch.complex128):
        wide = torch.complex128 if rows.is_complex() else torch.float64
        size = max(1, _WIDE_AT_A_TIME // max(1, rows.shape[1] * rows.shape[2]))
        parts = [torch.linalg.vector_norm(part, dim=2, dtype=wide) for part in torch.split(rows, size)]
        lengths = torch.cat(parts)
    elif not rows.shape[2]:
        lengths = rows.abs().sum(2)
    else:
        largest = torch.linalg.vector_norm(rows, torch.inf, dim=2)
        scaled = rows / torch.where(largest > 0, largest, 1.0)[..., None]
        lengths = largest * torch.linalg.vector_norm(scaled, dim=2)
    return lengths


def _least_length(rows: Tensor) -> float:
    """Below it, underflow of a row's entries may change its length by half the tolerance.

    An entry below the type's normal numbers is off by one step of the subnormal ones, or flushed to zero
    where the hardware is set to do so, which no hardware does for float16.
    """
    info = torch.finfo(rows.dtype)
    error = info.tiny * (info.eps if rows.dtype == torch.float16 else 1.0)
    return max(64 * info.tiny, 2 * error * math.sqrt(rows.shape[2]) / _TOLERANCE)


def _signature(
    num_examples: int, uses: tuple[Use, ...], axes: Mapping[UseKey, BatchAxis], graph: Graph
) -> int:
    """Identifies the graph, whatever the number of examples, which differs in every Poisson batch."""
    operators = tuple(operator.name for operator in graph.values())
    rows = []
    for use in uses:
        shape = use.node._input_metadata[0].shape
        known = [axis for key in use.keys if (axis := axes.get(key))]
        rows += [shape[axis.dim] / num_examples for axis in known]
    return hash((operators, tuple(rows)))


def _generator() -> torch.Generator:
    """A generator for the check alone: the check must not change the random numbers of training."""
    generator = torch.Generator()
    generator.seed()
    return generator
