"""One step's privacy loss in closed form, against integrals over its two densities."""

import numpy as np
import pytest
from scipy.stats import norm

from fl_dp.accounting.privacy_loss import StepLoss

STEPS = [StepLoss(0.01, 1.0), StepLoss(0.3, 0.5), StepLoss(1.0, 2.0), StepLoss(0.99, 1.2)]
LOSSES = np.array([-3.0, -0.5, -1e-3, 0.0, 1e-3, 0.4, 2.0])


def _densities(step: StepLoss) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outcomes (X,), and what P and Q have around each of them."""
    q, s = step.sample_rate, step.noise_multiplier
    x = np.linspace(-12 * s, 1 + 12 * s, 400_001)
    without = norm.pdf(x, 0, s)
    return x, ((1 - q) * without + q * norm.pdf(x, 1, s)) * (x[1] - x[0]), without * (x[1] - x[0])


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_deltas_are_the_hockey_stick_divergences(step):
    _, p, q = _densities(step)
    for loss in LOSSES:
        removal, addition = step.removal_delta(np.array([loss])), step.addition_delta(np.array([loss]))
        assert removal[0] == pytest.approx(np.maximum(p - np.exp(loss) * q, 0).sum(), abs=1e-7)
        assert addition[0] == pytest.approx(np.maximum(q - np.exp(loss) * p, 0).sum(), abs=1e-7)
    outcomes = np.linspace(-0.5, 9.0, 20) * step.noise_multiplier
    assert step.outcome(step.loss(outcomes)) == pytest.approx(outcomes, rel=1e-9, abs=1e-9)


def test_no_outcome_has_a_loss_below_the_chance_of_being_left_out():
    step = StepLoss(0.25, 1.0)
    assert step.outcome([np.log(0.75) - 1e-9, -50.0]).tolist() == [-np.inf, -np.inf]
    assert step.removal_delta(np.array([-50.0])) == pytest.approx(1.0)
    assert step.addition_delta(np.array([-np.log(0.75) + 1e-9])) == 0.0
