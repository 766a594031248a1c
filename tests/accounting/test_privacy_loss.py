"""One step's privacy loss in closed form; its deltas are those of test_closed_forms.py."""

import numpy as np
import pytest

from fl_dp.accounting.privacy_loss import StepLoss


@pytest.mark.parametrize("step", [StepLoss(0.01, 1.0), StepLoss(0.3, 0.5), StepLoss(1.0, 2.0)], ids=str)
def test_the_outcome_of_a_loss_has_this_loss(step):
    outcomes = np.linspace(-0.5, 9.0, 20) * step.noise_multiplier
    assert step.outcome(step.loss(outcomes)) == pytest.approx(outcomes, rel=1e-9, abs=1e-9)


def test_no_outcome_has_a_loss_below_the_chance_of_being_left_out():
    step = StepLoss(0.25, 1.0)
    assert step.outcome([np.log(0.75) - 1e-9, -50.0]).tolist() == [-np.inf, -np.inf]
    assert step.removal_delta(np.array([-50.0])) == pytest.approx(1.0)
    assert step.addition_delta(np.array([-np.log(0.75) + 1e-9])) == 0.0
