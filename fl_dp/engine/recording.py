"""Records a pass once, as a list of operators, and replays it. This saves the time that Python takes.

`make_fx` makes the list from the engine's own pass: forward, backward, rules, kernels, factors and sums.
Weights and buffers are inputs, as examples are, and `make_fx` refuses code that branches on them. TorchScript
interprets the list as it is: called from Python, a small model's operators take longer than their arithmetic.
(PyTorch calls TorchScript deprecated, but has no other interpreter; without one, nothing would be recorded.)
The list is accepted only if it gives the same bits as the pass itself, on random examples, some so large that
squares overflow, and at several weights. So what was checked of the pass holds for the list: which rows are
steady, how far rounding can move a sum, what a repeated round gives.

Only on CPUs: no CUDA graph is captured.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx import GraphModule

from fl_dp.engine.precision import full_precision
from fl_dp.engine.steady_rows import HUGE, LONG, scaled, write_weights
from fl_dp.engine.tracing import harness
from fl_dp.engine.tracing.draws import kept_random_state

Batch = tuple[Tensor, ...]
# From a batch, and parameters and buffers by name: norms (N,) and sums, or whatever other tensors.
Pass = Callable[[Batch, Mapping[str, Tensor]], Sequence[Tensor]]

_BY_DATA = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


class NotRecordedError(Exception):
    """A pass that cannot be replaced by a list of operators."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A `Pass` of one shape and one set of kernels."""

    _operators: Callable[..., list[Tensor]]

    @torch.no_grad()
    def __call__(self, batch: Batch, state: Mapping[str, Tensor]) -> list[Tensor]:
        # optimized, it would have other bits
        with full_precision(batch[0].device), torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
            return self._operators(*batch, *state.values())


def record(run: Pass, blank: Callable[[], Batch], state: Mapping[str, Tensor]) -> Recorded:
    """`run`, recorded and accepted. NotRecordedError if that is impossible: then use `run` itself.

    blank: gives examples of random numbers, others in each call; no real data are read. torch's global random
    state is restored afterwards.
    """
    with kept_random_state():
        try:
            return _accepted(run, blank, state)
        except NotRecordedError:
            raise
        except Exception as error:  # of any kind, from a model or from PyTorch's tracing
            raise NotRecordedError(f"{type(error).__name__}: {error}") from error


def _accepted(run: Pass, blank: Callable[[], Batch], state: Mapping[str, Tensor]) -> Recorded:
    operators, again = (_operators_of(run, blank(), _copies(state)) for _ in range(2))
    if operators.code != again.code:
        raise NotRecordedError("it takes other operators from call to call")
    _check(operators)
    recorded = Recorded(_without_python(operators))
    for cancelling in (None, False, True):
        weights = _copies(state)
        if cancelling is not None:
            trained = {name: one.detach() for name, one in weights.items() if one.requires_grad}
            write_weights(trained, cancelling=cancelling)
        for batch in (blank(), scaled(blank(), LONG), scaled(blank(), HUGE)):
            _compare(run, recorded, batch, weights)
    return recorded


def _operators_of(run: Pass, batch: Batch, state: Mapping[str, Tensor]) -> GraphModule:
    from torch.fx.experimental.proxy_tensor import make_fx  # late: few need it; its first call takes a second

    def flat(*tensors: Tensor) -> list[Tensor]:
        examples, weights = tensors[: len(batch)], tensors[len(batch) :]
        return list(run(examples, dict(zip(state, weights, strict=True))))

    return make_fx(flat, tracing_mode="real")(*batch, *state.values())


def _without_python(operators: GraphModule) -> Callable[..., list[Tensor]]:
    """The operators as a function of TorchScript; what its language lacks raises."""
    code = (
        operators.code.strip().replace("forward(self, ", "forward(").replace("device(type=", "torch.device(")
    )
    code = re.sub(r";  .*", "", code)  # tensors are freed after their last use anyhow
    code = re.sub(r"(torch\.ops\.\w+\.\w+)\.\w+\(", r"\1(", code)  # overloads follow from the arguments
    code = re.sub(r"\b(inf|nan)\b", r"float('\1')", code)
    function: Callable[..., list[Tensor]] = torch.jit.CompilationUnit(f"{code}\n").forward
    return function


def _check(operators: GraphModule) -> None:
    """Refuse tensors that are not inputs, and operators whose data decide the shape or type of the result."""
    for node in operators.graph.nodes:
        if node.op == "get_attr":
            raise NotRecordedError(f"{node.target} is neither an example nor a weight")
        if set(getattr(node.target, "tags", ())) & _BY_DATA:
            raise NotRecordedError(f"data decide the shape of what {node.target} gives")


def _compare(run: Pass, recorded: Recorded, batch: Batch, state: Mapping[str, Tensor]) -> None:
    """NotRecordedError unless both give the same bits, and draw the same amount of random numbers."""
    before = torch.get_rng_state()
    expected, after = _named(run(batch, state)), torch.get_rng_state()
    torch.set_rng_state(before)
    found, examples = _named(recorded(batch, state)), harness.Batch(batch, {}, len(batch[0]))
    if not torch.equal(after, torch.get_rng_state()):
        raise NotRecordedError("it draws other random numbers")
    same = harness.again(examples)
    if harness.moved(expected, found, same, harness.same_bits, examples.size, frozenset()):
        raise NotRecordedError("its results have other bits")


def _named(numbers: Sequence[Tensor]) -> harness.Outputs:
    return {str(number): one.detach() for number, one in enumerate(numbers)}


def _copies(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: one.detach().clone().requires_grad_(one.requires_grad) for name, one in state.items()}
