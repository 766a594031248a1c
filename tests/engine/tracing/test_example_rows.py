"""Where each example's rows are, found from what its own loss reaches."""

import torch
from torch import Tensor
from torch.nn import functional as F

from fl_dp.engine.tracing.example_rows import find_example_rows

N = 3


def _rows(output: Tensor, **parameters: Tensor):
    """Of an output (N, ...), whose losses weigh every entry differently."""
    losses = (output.reshape(N, -1) * torch.rand(N, output[0].numel())).sum(1)
    return find_example_rows(losses, parameters)


def test_a_use_that_an_example_does_not_reach_may_lie_otherwise():
    """With one position left out of (T, N) and (N, T) both orders fit what is reached."""
    weight = torch.randn(4, 6, requires_grad=True)
    output = F.linear(torch.randn(N, N, 6), weight)
    kept = torch.zeros(N, N, 1)
    kept[0, 0] = 1
    found = _rows(output * kept, w=weight)
    assert [key.parameters for key in found.unknown] == [("w",)]


def test_one_axis_must_fit_all_uses_of_a_kind():
    """A layer that is called on (N, T) and on (T, N) has rows in no one place: the sum of both is the use."""
    weight = torch.randn(6, 6, requires_grad=True)
    first, second = torch.randn(N, 5, 6), torch.randn(5, N, 6)
    output = F.linear(first, weight) + F.linear(second, weight).transpose(0, 1)
    found = _rows(output, w=weight)
    assert {key.operator for operator in found.shared for key in operator} == {"MmBackward0"}
    assert {key.operator for key in found.batch} == {"AddBackward0"}
