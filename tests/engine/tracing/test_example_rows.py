"""Where each example's rows are, found from what its own loss reaches."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fl_dp.engine.tracing.axis import BatchAxis
from fl_dp.engine.tracing.example_rows import find_example_rows

N = 3


def _weight(*shape: int) -> nn.Parameter:
    torch.manual_seed(0)
    return nn.Parameter(torch.randn(shape))


def _rows(output: Tensor, **parameters: nn.Parameter):
    """Of an output (N, ...), whose losses weigh every entry differently."""
    losses = (output.reshape(N, -1) * torch.rand(N, output[0].numel())).sum(1)
    return find_example_rows(losses, parameters)


def _axis(found) -> BatchAxis:
    (axis,) = set(found.batch.values())
    return axis


def test_one_row_an_example_leaves_the_order_open():
    weight = _weight(4, 6)
    assert _axis(_rows(F.linear(torch.randn(N, 6), weight), w=weight)) == BatchAxis(0, False, True)


def test_several_adjacent_rows_an_example():
    weight = _weight(4, 6)
    assert _axis(_rows(F.linear(torch.randn(N, 5, 6), weight), w=weight)) == BatchAxis(0)


def test_several_rows_an_example_batch_second():
    weight = _weight(4, 6)
    output = F.linear(torch.randn(5, N, 6), weight).transpose(0, 1)
    assert _axis(_rows(output, w=weight)) == BatchAxis(0, minor=True)


def test_the_batch_in_another_dimension():
    weight = _weight(2)
    output = torch.randn(2, N, 2) + weight
    assert _axis(_rows(output.transpose(0, 1), w=weight)) == BatchAxis(1, False, True)


def test_operators_on_parameters_alone_are_passed_over_one_above_the_other():
    weight, a, b = _weight(4, 6), _weight(2, 6), _weight(4, 2)
    found = _rows(F.linear(torch.randn(N, 6), weight + b @ a), w=weight, a=a, b=b)
    assert {key.operator for operator in found.shared for key in operator} == {"AddBackward0", "MmBackward0"}
    (key,) = found.batch
    assert (key.operator, key.argument, key.parameters) == ("MmBackward0", 1, ("a", "b", "w"))
    assert found.unknown == ()
    again = find_example_rows(
        F.linear(torch.randn(N, 6), weight + b @ a).sum(1), {"w": weight, "a": a, "b": b}, found.shared
    )
    assert again.shared == found.shared


def test_rows_that_data_picked_are_passed_over():
    weight = _weight(4, 6)
    picked = torch.tensor([[True, True, False], [False, False, True], [True, False, False]])
    x = torch.randn(N, 3, 6)
    output = torch.zeros(N, 3, 4).index_put((picked,), F.linear(x[picked], weight))
    found = _rows(output, w=weight)
    assert [key.operator for operator in found.shared for key in operator] == ["MmBackward0"]
    assert [key.operator for key in found.batch] == ["IndexPutBackward0"]


def test_a_use_that_an_example_does_not_reach_may_lie_otherwise():
    """With one position left out of (T, N) and (N, T) both orders fit what is reached."""
    weight = _weight(4, 6)
    output = F.linear(torch.randn(N, N, 6), weight)
    kept = torch.zeros(N, N, 1)
    kept[0, 0] = 1
    found = _rows(output * kept, w=weight)
    assert [key.parameters for key in found.unknown] == [("w",)]


def test_a_use_that_matters_to_no_loss_has_no_axis():
    weight, idle = _weight(4, 6), _weight(4, 6)
    x = torch.randn(N, 6)
    found = _rows(F.linear(x, weight) + F.linear(x, idle).detach(), w=weight, idle=idle)
    assert {key.parameters for key in found.batch} == {("w",)}


def test_one_axis_must_fit_all_uses_of_a_kind():
    """A layer that is called on (N, T) and on (T, N) has rows in no one place: the sum of both is the use."""
    weight = _weight(6, 6)
    first, second = torch.randn(N, 5, 6), torch.randn(5, N, 6)
    output = F.linear(first, weight) + F.linear(second, weight).transpose(0, 1)
    found = _rows(output, w=weight)
    assert {key.operator for operator in found.shared for key in operator} == {"MmBackward0"}
    assert {key.operator for key in found.batch} == {"AddBackward0"}
