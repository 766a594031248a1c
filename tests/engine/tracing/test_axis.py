"""Rows are split by example, and owners say the same; what is not known is refused. Which rows are whose is
found from what each example's own loss reaches.
"""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fl_dp.engine.tracing.axis import LEADING, BatchAxis, find_example_rows
from fl_dp.errors import ProbeError

CPU = torch.device("cpu")


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("rows_per_example", [1, 2, 5])
@pytest.mark.parametrize("minor", [False, True])
def test_every_row_goes_to_its_owner_in_order(dim, rows_per_example, minor):
    n = 3
    order = [(e, k) for e in range(n) for k in range(rows_per_example)]
    if minor:
        order = [(e, k) for k in range(rows_per_example) for e in range(n)]
    values = torch.tensor([10 * example + row for example, row in order])
    shape = [4, 4, 4]
    shape[dim] = len(order)
    tensor = values.view([-1 if d == dim else 1 for d in range(3)]).expand(shape)
    axis = BatchAxis(dim, minor)
    found = axis.split(tensor, n)
    assert found.shape == (n, rows_per_example, 4, 4)
    assert found[:, :, 0, 0].tolist() == [[10 * e + k for k in range(rows_per_example)] for e in range(n)]
    assert axis.owners(len(order), n, CPU).tolist() == [example for example, _ in order]


def test_rows_before_and_after_the_batch_go_to_their_owner_in_order():
    axis = BatchAxis(1, between=(2, 5))
    order = [(e, b, a) for b in range(2) for e in range(3) for a in range(5)]
    tensor = torch.tensor([100 * e + 10 * b + a for e, b, a in order]).expand(4, 30)
    found = axis.split(tensor, 3)
    assert found.shape == (3, 10, 4)
    assert found[:, :, 0].tolist() == [
        [100 * e + 10 * b + a for b in range(2) for a in range(5)] for e in range(3)
    ]
    assert axis.owners(30, 3, CPU).tolist() == [e for e, _, _ in order]


def test_the_other_dimensions_keep_their_order():
    assert BatchAxis(1).split(torch.zeros(4, 6, 5, 7), 3).shape == (3, 2, 4, 5, 7)


@pytest.mark.parametrize("axis", [LEADING, BatchAxis(1), BatchAxis(0, minor=True)])
def test_rows_that_are_no_multiple_of_the_examples_are_refused(axis):
    for ask in (lambda: axis.split(torch.zeros(7, 7), 3), lambda: axis.owners(7, 3, CPU)):
        with pytest.raises(ProbeError, match=r"7 rows in dimension \d, not a multiple of the 3 examples"):
            ask()


def test_an_order_that_was_never_seen_is_refused():
    axis = BatchAxis(0, single=True)
    assert axis.split(torch.zeros(3, 2), 3).shape == (3, 1, 2)
    with pytest.raises(ProbeError, match=r"2 rows an example in dimension 0.*checked with one"):
        axis.split(torch.zeros(6, 2), 3)


def test_no_rows_are_nobody_s():
    assert LEADING.split(torch.zeros(0, 2), 3).shape == (3, 0, 2)
    assert LEADING.owners(0, 3, CPU).tolist() == []


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
