"""PLD: one step is exact, the grid stays within its points, and hardly any noise overflows nothing."""

import math

import pytest

from fl_dp.accounting.accountants.pld import (
    _RESOLUTION,
    _STEP_POINTS,
    _TOTAL_POINTS,
    _evaluation_error,
    _grid_interval,
    _largest_loss,
    compute_pld_epsilon,
)
from fl_dp.accounting.events import order_two_divergence
from fl_dp.accounting.privacy_loss import StepLoss
from fl_dp.accounting.transform_error import transform_error
from fl_dp.errors import AccountingError
from fl_dp.records import Entry, total_steps


def test_the_largest_loss_is_that_of_the_noises_tail() -> None:
    """9 standard deviations beyond the record's 1: the guard's number is above the exact one, and close."""
    for rate, noise in ((0.01, 1.0), (0.5, 0.05), (1.0, 2.0)):
        exact = float(StepLoss(rate, noise).loss(1 + 9 * noise))
        assert _largest_loss(Entry(rate, noise, 1)) == pytest.approx(exact, rel=0.05, abs=1e-3)
    for noise in (0.0325, 0.032):
        exact = float(StepLoss(0.5, noise).loss(1 + 9 * noise))
        assert exact <= _largest_loss(Entry(0.5, noise, 1)) == (0.5 / noise + 9) / noise


@pytest.mark.parametrize(
    "entries",
    [
        (Entry(0.01, 1.0, 1000),),
        (Entry(0.001, 0.5, 1),),
        (Entry(0.1, 3.0, 1_000_000),),
        (Entry(1.0, 0.9, 1_000_000),),
        (Entry(0.2, 0.1, 3), Entry(1e-4, 50.0, 100_000)),
    ],
)
def test_the_grid_is_as_fine_as_its_points_allow(entries: tuple[Entry, ...]) -> None:
    """A power of sqrt(2), which may be that much below what is asked for."""
    interval = _grid_interval(entries)
    exponent = 2 * math.log2(interval)
    assert exponent == pytest.approx(round(exponent))
    variances = [e.steps * order_two_divergence(e) for e in entries]
    losses = [_largest_loss(e) for e in entries]
    bells = [16 * math.sqrt(v) + v / loss for v, loss in zip(variances, losses, strict=True)]
    wanted = max(
        _RESOLUTION * math.sqrt(sum(variances) / total_steps(entries)),
        max(losses) / _STEP_POINTS,
        max(bells) / _TOTAL_POINTS,
    )
    assert wanted / math.sqrt(2) < interval <= wanted


def test_rounding_is_paid_for_from_delta() -> None:
    """That of the transforms, a machine epsilon a step, and that of the steps' deltas."""
    entries = (Entry(0.01, 2.0, 3000), Entry(0.02, 2.0, 1000))
    assert transform_error(entries) == 4000 * 2.0**-52
    assert _evaluation_error(entries) == pytest.approx((0.01 * 3000 + 0.02 * 1000) * 2.0**-52)
    least = 2 * (transform_error(entries) + _evaluation_error(entries))
    assert compute_pld_epsilon(entries, 1.01 * least) > compute_pld_epsilon(entries, 1e-9)
    with pytest.raises(AccountingError, match="over 4000 steps in double precision"):
        compute_pld_epsilon(entries, 0.99 * least)
