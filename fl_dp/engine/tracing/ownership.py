"""Checks on a real batch that each row of a use belongs to the example that `probe` found.

`probe` learns from three synthetic examples where each example's rows are. But data can move rows (x[mask],
sorting, mixtures of experts), and the user's losses can mix examples (a contrastive loss, a mean). Synthetic
examples need not show either. Here the losses of a real batch are multiplied by powers of two, which scale
gradients without rounding, unless a number underflows. If a row belongs only to its example's loss, its
gradient scales by the same power.
"""

import math
from collections.abc import Callable, Mapping
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
        "Embedding", "Gather", "Index", "IndexAdd", "IndexCopy", "IndexFill", "IndexPut", "IndexReduce",
        "IndexSelect", "MaskedScatter", "MaskedSelect", "PackPaddedSequence", "Put", "Scatter",
        "ScatterAdd", "ScatterReduce", "SegmentReduce", "Sort", "Take", "Topk",
    )
    for overload in range(2)
)  # fmt: skip
_WEIGHTS = 8  # 1, 2, ..., 128
_WIDE_AT_A_TIME = 2**17  # numbers that are held in double precision at a time, 1 MiB
_TOLERANCE = 1e-3  # relative to a row's length; two different weights differ by a factor of at least two

# For each use: (N, K) lengths of its gradient's rows, and the least length that scales exactly.
_Found = dict[tuple[Node, UseKey], tuple[Tensor, float]]


@dataclass
class OwnerCheck:
    """Remembers the graphs that have been checked, so that a model of fixed shape is checked once.

    A graph is recognised by its operators in order and by the number of rows that an example has in each use.
    If data may move rows above a use, the graph is checked in every batch, at the cost of one more backward
    pass.

    report: called with the error of a batch that fails, instead of raising it. Nothing else changes; what is
    checked later does not depend on the result either. It is for steps that are paid for, after which nothing
    that depends on data may end a round: keep the reports on the client.
    """

    known: set[int] = field(default_factory=set)
    report: Callable[[ProbeError], None] | None = None

    def begin(
        self,
        losses: Tensor,
        uses: tuple[Use, ...],
        axes: Mapping[UseKey, BatchAxis],
        graph: Graph | None = None,
    ) -> "Comparison | None":
        """A comparison that watches the backward pass of this batch; None if there is nothing to check.

        It immediately takes a weighted pass of its own; `losses` keep their graph. graph: that of `losses`,
        if it is known. Raises ProbeError for rows that cannot be split, or reports it.
        """
        if losses.shape[0] < 2:
            return None
        graph = graph or graph_of(losses)
        signature = _signature(losses.shape[0], uses, axes, graph)
        if signature in self.known and not data_may_move_rows(losses, uses, graph):
            return None
        try:
            return Comparison(losses, uses, axes, signature)
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
        self._weighed: _Found = {}
        self._plain: _Found = {}
        with torch.no_grad():
            note = partial(self._measure, self._weighed)
            output_grads(losses, uses, note, weights=self._weights, retain_graph=True)

    def note(self, use: Use, grad: Tensor) -> None:
        """The output gradient of `use` in the pass of the summed losses."""
        self._measure(self._plain, use, grad)

    def finish(self) -> None:
        """ProbeError, with the way out, if a row did not scale with the loss of its example."""
        for key, (lengths, smallest) in self._plain.items():
            expected, found = lengths * self._weights[:, None].to(lengths), self._weighed[key][0]
            judged = expected.isfinite() & found.isfinite() & (lengths > smallest)
            if bool((judged & ((found - expected).abs() > _TOLERANCE * expected)).any()):
                raise ProbeError(
                    f"{key[1]}: in this batch the gradient of some rows is not that of the example's loss "
                    "whose rows they were when the model was checked. Either the losses mix examples (each "
                    "must be one example's own, whatever else is in the batch), or data decide where the "
                    "model puts its rows; take such examples one at a time."
                )

    def _measure(self, found: _Found, use: Use, grad: Tensor) -> None:
        for key in use.keys:
            if key in self._axes:
                rows = self._axes[key].split(grad, self._num_examples)
                rows = rows.reshape(*rows.shape[:2], -1)
                found[use.node, key] = (_lengths(rows), _least_length(rows))


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
