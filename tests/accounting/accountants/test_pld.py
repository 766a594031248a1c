"""PLD: the grid stays within its points, and rounding is paid for."""

import math

import pytest

from fl_dp.accounting.accountants.pld import (
    _STEP_POINTS,
    _TOTAL_POINTS,
    _evaluation_error,
    _grid_interval,
    compute_pld_epsilon,
    transform_error,
)
from fl_dp.accounting.events import order_two_divergence
from fl_dp.accounting.privacy_loss import StepLoss
from fl_dp.errors import AccountingError
from fl_dp.records import Entry


@pytest.mark.parametrize(
    ("rate", "noise", "steps"),
    [(1e-6, 0.5, 1), (0.01, 0.032, 1000), (0.1, 3.0, 1_000_000), (1.0, 0.9, 1_000_000)],
)
def test_the_grid_has_no_more_points_than_it_may(rate: float, noise: float, steps: int) -> None:
    """They bound time and memory, whatever a server asks for. An interval is a power of sqrt(2)."""
    entry = Entry(rate, noise, steps)
    interval, variance = _grid_interval((entry,)) * math.sqrt(2), steps * order_two_divergence(entry)
    largest = float(StepLoss(rate, noise).loss(1 + 9 * noise))  # 9 standard deviations beyond the record's 1
    assert largest / interval <= 1.05 * _STEP_POINTS
    assert (16 * math.sqrt(variance) + variance / largest) / interval <= 1.05 * _TOTAL_POINTS


def test_rounding_is_paid_for_from_delta() -> None:
    """That of the transforms, a machine epsilon a step, and that of the steps' deltas."""
    entries = (Entry(0.01, 2.0, 3000), Entry(0.02, 2.0, 1000))
    assert transform_error(entries) == 4000 * 2.0**-52
    assert _evaluation_error(entries) == pytest.approx((0.01 * 3000 + 0.02 * 1000) * 2.0**-52)
    least = 2 * (transform_error(entries) + _evaluation_error(entries))
    assert compute_pld_epsilon(entries, 1.01 * least) > compute_pld_epsilon(entries, 1e-9)
    with pytest.raises(AccountingError, match="over 4000 steps in double precision"):
        compute_pld_epsilon(entries, 0.99 * least)
