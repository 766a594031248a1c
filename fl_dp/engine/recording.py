"""Records a pass once, as a list of operators, and replays it. This saves the time that Python takes.

`make_fx` makes the list from the engine's own pass: forward, backward, rules and kernels, up to what is kept
of each gradient. Factors, sums and noise are computed as usual. Weights and buffers are inputs, as examples
are, and `make_fx` refuses code that branches on them. The list is accepted only if it gives the same bits as
the pass itself, on random examples, some so large that squares overflow, and at several weights. So what was
checked of the pass holds for the list: which rows are steady, how far rounding can move a sum, what a
repeated round gives.

Only on CPUs: no CUDA graph is captured.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from fl_dp.engine.gradients.kept import Combine, Kept
from fl_dp.engine.steady_rows import HUGE, LONG, scaled, write_weights
from fl_dp.engine.sum_error import Additions
from fl_dp.engine.tracing import harness
from fl_dp.engine.tracing.draws import kept_random_state

Batch = tuple[Tensor, ...]
Passed = tuple[Tensor, dict[str, Kept]]  # losses (N,), and what is kept
Pass = Callable[[Batch, Mapping[str, Tensor]], Passed]  # from a batch, and parameters and buffers by name

_BY_DATA = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)


class NotRecordedError(Exception):
    """A pass that cannot be replaced by a list of operators."""


@dataclass(frozen=True, slots=True)
class _Form:
    """How to make a `Kept` from tensors. parts: their number. combine, of_blocks: may hold what they were
    recorded with. has_least: whether there is a `least`.
    """

    name: str
    parts: int
    combine: Combine
    positions: int
    has_least: bool
    of_blocks: Combine | None


@dataclass(frozen=True, slots=True)
class Recorded:
    """A `Pass` of one shape and one set of kernels."""

    _operators: GraphModule
    _forms: tuple[_Form, ...]

    @torch.no_grad()
    def __call__(self, batch: Batch, state: Mapping[str, Tensor]) -> Passed:
        return _passed(self._operators(*batch, *state.values()), self._forms)


def record(run: Pass, blank: Callable[[], Batch], state: Mapping[str, Tensor]) -> Recorded:
    """`run`, recorded and accepted. NotRecordedError if that is impossible: then use `run` itself.

    blank: gives examples of random numbers, different in each call; no real data
    are read. torch's global random state is restored afterwards.
    """
    with kept_random_state():
        try:
            return _admitted(run, blank, state)
        except NotRecordedError:
            raise
        except Exception as error:  # of any kind, from a model or from PyTorch's tracing
            raise NotRecordedError(f"{type(error).__name__}: {error}") from error


def _admitted(run: Pass, blank: Callable[[], Batch], state: Mapping[str, Tensor]) -> Recorded:
    recorded, again = (_recorded(run, blank(), _copies(state)) for _ in range(2))
    if recorded._operators.code != again._operators.code:
        raise NotRecordedError("it takes other operators from call to call")
    _check(recorded._operators)
    for cancelling in (None, False, True):
        weights = _copies(state)
        if cancelling is not None:
            trained = {name: one.detach() for name, one in weights.items() if one.requires_grad}
            write_weights(trained, cancelling=cancelling)
        for batch in (blank(), scaled(blank(), LONG), scaled(blank(), HUGE)):
            _compare(run, recorded, batch, weights)
    return recorded


def _recorded(run: Pass, batch: Batch, state: Mapping[str, Tensor]) -> Recorded:
    from torch.fx.experimental.proxy_tensor import make_fx  # late: few need it; its first call takes a second

    forms: list[_Form] = []

    def flat(*tensors: Tensor) -> list[Tensor]:
        examples, weights = tensors[: len(batch)], tensors[len(batch) :]
        losses, kept = run(examples, dict(zip(state, weights, strict=True)))
        forms[:] = [
            _Form(name, len(one.parts), one.combine, one.positions, one.least is not None, one.of_blocks)
            for name, one in kept.items()
        ]
        return _flat(losses, kept)

    operators = make_fx(flat, tracing_mode="real")(*batch, *state.values())
    return Recorded(operators, tuple(forms))


def _check(operators: GraphModule) -> None:
    """Refuse tensors that are not inputs, and operators whose data decide the shape or type of the result."""
    for node in operators.graph.nodes:
        if node.op == "get_attr":
            raise NotRecordedError(f"{node.target} is neither an example nor a weight")
        if _tags(node) & set(_BY_DATA):
            raise NotRecordedError(f"data decide the shape of what {node.target} gives")


def _tags(node: Node) -> set[torch.Tag]:
    return set(getattr(node.target, "tags", ()))


def _compare(run: Pass, recorded: Recorded, batch: Batch, state: Mapping[str, Tensor]) -> None:
    """NotRecordedError unless both give the same bits, and draw the same amount of random numbers."""
    before = torch.get_rng_state()
    expected, after = _numbers(*run(batch, state)), torch.get_rng_state()
    torch.set_rng_state(before)
    found, examples = _numbers(*recorded(batch, state)), harness.Batch(batch, {}, len(batch[0]))
    if not torch.equal(after, torch.get_rng_state()):
        raise NotRecordedError("it draws otherwise")
    same = harness.again(examples)
    if harness.moved(expected, found, same, harness.same_bits, examples.size, frozenset()):
        raise NotRecordedError("its numbers have other bits")


def _flat(losses: Tensor, kept: Mapping[str, Kept]) -> list[Tensor]:
    return [losses.detach(), *(one for each in kept.values() for one in each.tensors)]


@torch.no_grad()
def _numbers(losses: Tensor, kept: Mapping[str, Kept]) -> harness.Outputs:
    """The results of a pass, and sums of them with a different factor for each example."""
    factors = torch.linspace(0.5, 1, len(losses), device=losses.device)
    adding = Additions(rows=len(losses), wide=False)
    found = [*_flat(losses, kept), *(one.weighted_sum(factors, adding) for one in kept.values())]
    return {str(number): one for number, one in enumerate(found)}


def _copies(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: one.detach().clone().requires_grad_(one.requires_grad) for name, one in state.items()}


def _passed(results: Iterable[Tensor], forms: Iterable[_Form]) -> Passed:
    losses, *tensors = results
    left = iter(tensors)
    return losses, {form.name: _kept(form, left) for form in forms}


def _kept(form: _Form, left: Iterator[Tensor]) -> Kept:
    norm_squared, parts = next(left), tuple(islice(left, form.parts))
    least = next(left) if form.has_least else None
    return Kept(norm_squared, parts, form.combine, form.positions, least, form.of_blocks)
