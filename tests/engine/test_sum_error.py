"""The theorem of docs/rounding.md: how far what is added is from the sum of the clipped gradients."""

import math

import pytest
import torch
from scipy.stats import binom
from torch import Tensor

from fl_dp.engine.clip_functions import Abadi
from fl_dp.engine.gradients.convolution import Conv, Geometry
from fl_dp.engine.gradients.layouts import Dense, GradientLayout
from fl_dp.engine.gradients.outer_products import Outer
from fl_dp.engine.gradients.table_rows import Rows
from fl_dp.engine.rounding import round_up
from fl_dp.engine.sum_error import MOST_ERROR, MOST_IN_FLOAT32, in_float32, most_drawn, sum_error
from fl_dp.records import MOST_BATCH

EXAMPLES = 200


@pytest.mark.parametrize("expected", [0.5, 1, 16, 64, 1000, 30_000])
@pytest.mark.parametrize("rate", [1e-6, 0.01, 0.5, 1.0])
def test_a_draw_is_larger_than_foreseen_with_a_chance_of_2_to_the_minus_111(expected, rate):
    records, most = math.ceil(expected / rate), most_drawn(expected)
    assert binom.logsf(most, records, expected / records) <= -111 * math.log(2)
    assert most <= expected + 20 * math.sqrt(expected) + 120


def test_of_no_batch_that_is_accepted_rounding_adds_more_than_is_charged_where_none_is_named():
    for most in (1, MOST_IN_FLOAT32, MOST_IN_FLOAT32 + 1, most_drawn(MOST_BATCH)):
        assert 0 < sum_error(most) <= MOST_ERROR


def _cancelling(count: int, positions: int, features: int, sign: float = -1.0) -> Tensor:
    """(count, positions, features) whose second half is `sign` times the first, but for some last bits."""
    half = torch.randn(count, (positions + 1) // 2, features)
    other = sign * half * (1 + 2.0**-11 * torch.randn(count, 1, 1))
    return torch.cat([half, other], 1)[:, :positions]


def _outer(positions: int) -> Outer:
    return Outer(1e4 * _cancelling(EXAMPLES, positions, 3, 1.0), 1e4 * _cancelling(EXAMPLES, positions, 4))


def _rows(positions: int) -> Rows:
    tokens = torch.randint(0, 3, (EXAMPLES, (positions + 1) // 2)).repeat(1, 2)[:, :positions]
    return Rows(tokens, 1e5 * _cancelling(EXAMPLES, positions, 4), 5)


def _conv() -> Conv:
    """Of one channel, so that all kernels can serve. Images are constant, output gradients cancel."""
    left = 1e4 * _cancelling(EXAMPLES, 16, 1).view(EXAMPLES, 1, 4, 4)
    image = 1e4 * torch.rand(EXAMPLES, 1, 1, 1).expand(EXAMPLES, 1, 6, 6).contiguous()
    return Conv(left, image, 1, Geometry((3, 3), (1, 1), (0, 0), (1, 1), 1))


LAYOUTS = {
    "dense": lambda: Dense(torch.rand(EXAMPLES, 7) + 1),
    "outer, 1 position": lambda: Outer(torch.rand(EXAMPLES, 1, 3), torch.rand(EXAMPLES, 1, 4)),
    "outer, 2 positions": lambda: _outer(2),
    "outer, 64 positions": lambda: _outer(64),
    "rows": lambda: _rows(12),
    "conv": _conv,
}
CASES = [(name, kernel) for name, make in LAYOUTS.items() for kernel in make().kernels]


def _exactly(layout: GradientLayout, kernel: str) -> Tensor:
    """(N, ...) what the theorem says is added of each: the vector that was formed, else the sum of its terms.

    In float64, whose own rounding is a millionth of what is allowed.
    """
    if kernel.startswith("ghost") and isinstance(layout, Outer):
        return torch.bmm(layout.left.double().mT, layout.right.double())
    if kernel.startswith("ghost") and isinstance(layout, Conv):
        wide = Conv(layout.grad_output.double(), layout.input.double(), layout.images, layout.geometry)
        return wide.instantiate()
    alone = [torch.eye(len(layout.keep(kernel).norm_squared))[n] for n in range(EXAMPLES)]
    kept = layout.keep(kernel)
    return torch.stack([kept.combine(one, *kept.parts).view(layout.shape) for one in alone]).double()


@pytest.mark.parametrize("most", [EXAMPLES, MOST_IN_FLOAT32 + 1])
@pytest.mark.parametrize(("name", "kernel"), CASES)
def test_the_weighted_sum_is_as_near_to_the_sum_of_the_parts_as_is_charged(name, kernel, most):
    torch.manual_seed(0)
    layout = LAYOUTS[name]()
    kept, parts = layout.keep(kernel), _exactly(layout, kernel)
    norms = round_up(kept.norm_squared.sqrt(), math.prod(layout.shape), 1)
    factors = Abadi().factors(norms, 1.0)
    clipped = factors.double().view(-1, *(1,) * len(layout.shape)) * parts
    assert float(clipped.flatten(1).norm(dim=1).max()) <= 1
    assert float(clipped.flatten(1).norm(dim=1).max()) > 1e-4  # terms up to a KAPPA-th, not nothing
    found = kept.weighted_sum(factors, None, in_float32=in_float32(most)).view(layout.shape)
    off = float((found.double() - clipped.sum(0)).norm())
    assert off <= sum_error(most) / 2 * min(1, EXAMPLES / most)
