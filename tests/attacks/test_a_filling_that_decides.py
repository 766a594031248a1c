"""A server lets the padding of a pass overflow, so that a pass that is full counts and any other does not.

It knows every record but one, how passes were padded (random numbers, the same for all), and that the model
has a layer without a rule, or raises at large values. It sends weights of a million that multiply one feature
in layer after layer; its known records leave that feature at zero, the padding does not. Seven known records
and a row of padding fail, and the sum is zero. With the eighth record the pass is full and all of them count:
the sum moved by 5.7 C.
"""

from itertools import pairwise

import pytest
import torch
from moving import flat
from torch import Tensor, nn
from trainers import plan_of, trainer_for

from fl_dp.data.tensor_data import TensorData
from fl_dp.form import Form
from fl_dp.records import MOST_WEIGHT
from fl_dp.training.private import PrivateTrainer

HIDDEN, OVERFLOWING = 4, 6


class _Scaled(torch.autograd.Function):
    """An operator that cannot get a rule, because it is written in Python."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad * weight, (grad * x).sum_to_size(weight.shape)


class _Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x: Tensor) -> Tensor:
        return _Scaled.apply(x, self.weight)


class _Raising(nn.Module):
    """A layer of the user's that takes no value beyond a bound, and says so."""

    def forward(self, x: Tensor) -> Tensor:
        if bool((x.abs() > 1e30).any()):
            raise ValueError("beyond 1e30")
        return x


def trainer_at_hostile_weights(*more: nn.Module) -> PrivateTrainer:
    torch.manual_seed(0)
    scales = [_Scale() for _ in range(OVERFLOWING)]
    first, last = nn.Linear(5, HIDDEN), nn.Linear(HIDDEN, 3)
    model = nn.Sequential(first, *scales, *more, last)
    trainer = trainer_for(model, Form((5,), 3), plan_of(expected_batch_size=8))
    with torch.no_grad():
        first.bias.zero_()
        first.weight[:, 4] = 0
        first.weight[3] = torch.tensor([0, 0, 0, 0, 1.0]) * MOST_WEIGHT
        for scale in scales:
            scale.weight[3] = MOST_WEIGHT
        last.weight[:, 3] = 0
    return trainer


@pytest.mark.parametrize("more", [(), (_Raising(),)], ids=["overflows", "raises"])
@pytest.mark.parametrize("rows", [2, 4, 8])
def test_a_full_pass_counts_no_more_than_any_other(more: tuple[nn.Module, ...], rows: int) -> None:
    trainer = trainer_at_hostile_weights(*more)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2 * rows, 5, generator=generator)
    x[:, 4] = 0
    data = TensorData(x, torch.zeros(2 * rows, dtype=torch.int64), ("a", "b", "c"))
    sums = [flat(trainer._clipped_sum(data, torch.arange(n), rows).grads) for n in range(2 * rows + 1)]
    moves = [float((more - fewer).norm()) for fewer, more in pairwise(sums)]
    assert max(moves) <= 1.001  # the bound is 1
