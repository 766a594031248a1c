"""The theorem of docs/rounding.md: how far what is added is from the sum of the clipped gradients."""

import math

import pytest
import torch
from scipy.stats import binom
from torch import Tensor

from fl_dp.engine.clip_functions import Abadi
from fl_dp.engine.gradients.convolution import Conv, Geometry
from fl_dp.engine.gradients.kept import Kept
from fl_dp.engine.gradients.layouts import Dense, GradientLayout
from fl_dp.engine.gradients.outer_products import Outer
from fl_dp.engine.gradients.table_rows import Rows
from fl_dp.engine.rounding import round_up
from fl_dp.engine.sum_error import (
    MOST_ERROR,
    MOST_IN_FLOAT32,
    ORDERED_ERROR,
    additions,
    most_drawn,
    sum_error,
)
from fl_dp.records import MOST_BATCH

EXAMPLES = 200


@pytest.mark.parametrize("expected", [0.5, 1, 16, 64, 1000, 30_000])
@pytest.mark.parametrize("rate", [1e-6, 0.01, 0.5, 1.0])
def test_a_draw_is_larger_than_foreseen_with_a_chance_of_2_to_the_minus_111(expected, rate):
    records, most = math.ceil(expected / rate), most_drawn(expected)
    assert binom.logsf(most, records, expected / records) <= -111 * math.log(2)
    assert most <= expected + 20 * math.sqrt(expected) + 120


def test_of_no_batch_that_is_accepted_rounding_adds_more_than_is_charged_where_none_is_named():
    for most in (1, 256, 257, 512, 513, MOST_IN_FLOAT32, MOST_IN_FLOAT32 + 1, most_drawn(MOST_BATCH)):
        assert 0 < sum_error(most) <= MOST_ERROR


def test_blocks_in_a_secret_order_err_by_less_than_is_charged_whatever_the_layers_are():
    """docs/rounding.md: at each place of the largest block, the worst of all layers that reach it."""
    u, worst, in_float64 = 2.0**-24, dict.fromkeys(range(7), 0.0), 0.0
    every = ((T, additions(T, size, 2**20, ordered=True)) for T in range(1, 2**14 + 1) for size in (1, 2**30))
    for positions, adding in every:
        longer = 2 * math.sqrt(positions) if positions > 1 else 1.0
        if adding.wide:
            terms = adding.rows * positions
            in_float64 = max(in_float64, 4 * (terms + 4) * 2.0**-53 * adding.rows * longer)
            continue
        assert adding.rows in (1, 2, 4, 8, 16, 32, 64)
        assert adding.together == 8
        off = ((adding.rows * positions + 3) * longer * u) ** 2 * adding.rows
        for power in range(adding.rows.bit_length()):
            worst[power] = max(worst[power], off)
    of_blocks = 4 * math.sqrt(worst[0] + sum(2 ** (power - 1) * worst[power] for power in range(1, 7)))
    of_eight, of_passes = 256 * 64 * u, most_drawn(MOST_BATCH) ** 2 * 2.0**-52
    assert 0.9 * ORDERED_ERROR < of_blocks + of_eight + of_passes + in_float64 <= ORDERED_ERROR


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


def _conv(side: int) -> Conv:
    """Of one channel, so that all kernels can serve. Images are constant, output gradients cancel."""
    left = 1e4 * _cancelling(EXAMPLES, side * side, 1).view(EXAMPLES, 1, side, side)
    image = 1e4 * torch.rand(EXAMPLES, 1, 1, 1).expand(EXAMPLES, 1, side + 2, side + 2).contiguous()
    return Conv(left, image, 1, Geometry((3, 3), (1, 1), (0, 0), (1, 1), 1))


LAYOUTS = {
    "dense": lambda: Dense(torch.rand(EXAMPLES, 7) + 1),
    "outer, 1 position": lambda: Outer(torch.rand(EXAMPLES, 1, 3), torch.rand(EXAMPLES, 1, 4)),
    "outer, 2 positions": lambda: _outer(2),
    "outer, 64 positions": lambda: _outer(64),
    "outer, 300 positions": lambda: _outer(300),
    "rows": lambda: _rows(12),
    "convolution, 16 positions": lambda: _conv(4),
    "convolution, 324 positions": lambda: _conv(18),
}
CASES = [(name, kernel) for name, make in LAYOUTS.items() for kernel in make().kernels]


def _clipped(layout: GradientLayout, kept: Kept, factors: Tensor) -> Tensor:
    """(N, ...) what the theorem says is added of each: the factor times the vector that is formed for it.

    Where none is formed, times the sum of its terms, in float64, whose own rounding is a millionth of what is
    allowed.
    """
    is_formed = len(kept.parts) == 1 or isinstance(layout, Rows)
    if not is_formed and isinstance(layout, Outer):
        exact = torch.bmm(layout.left.double().mT, layout.right.double())
    elif not is_formed and isinstance(layout, Conv):
        wide = Conv(layout.grad_output.double(), layout.input.double(), layout.images, layout.geometry)
        exact = wide.instantiate()
    else:
        one = torch.ones(1)
        alone = [kept.combine(one, *(part[n : n + 1] for part in kept.parts)) for n in range(EXAMPLES)]
        exact = torch.stack(alone).double().view(EXAMPLES, *layout.shape)
    return factors.double().view(-1, *(1,) * len(layout.shape)) * exact


@pytest.mark.parametrize("most", [EXAMPLES, 500, MOST_IN_FLOAT32, MOST_IN_FLOAT32 + 1])
@pytest.mark.parametrize(("name", "kernel"), CASES)
def test_the_weighted_sum_is_as_near_to_the_sum_of_the_parts_as_is_charged(name, kernel, most):
    torch.manual_seed(0)
    layout = LAYOUTS[name]()
    kept = layout.keep(kernel)
    norms = round_up(kept.norm_squared.sqrt(), math.prod(layout.shape), 1)
    factors = Abadi().factors(norms, 1.0)
    clipped = _clipped(layout, kept, factors)
    longest = float(clipped.flatten(1).norm(dim=1).max())
    assert 1e-4 < longest <= 1
    adding = additions(kept.positions, math.prod(layout.shape), most, ordered=False)
    found = kept.weighted_sum(factors, adding).view(layout.shape)
    off = float((found.double() - clipped.sum(0)).norm())
    assert off <= sum_error(most) / 2 * EXAMPLES / most
