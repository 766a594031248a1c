"""Epochs as steps, and how often a client is likely to be chosen."""

import numpy as np
import pytest

from fl_dp.accounting.training_plan import ENOUGH, chosen_rounds, steps_of_epochs


def test_epochs_are_rounded_up_to_steps():
    assert steps_of_epochs(10_000, 256, 5.0) == 196
    assert steps_of_epochs(256, 256, 0.5) == 1
    assert [steps_of_epochs(1, 1, epochs) for epochs in (1.0, 3.0)] == [1, 3]


@pytest.mark.parametrize(("rounds", "share"), [(20, 0.5), (100, 0.1), (4, 0.5), (50, 0.02)])
def test_nine_of_ten_clients_take_part_no_more_often(rounds, share):
    planned = chosen_rounds(rounds, share)
    taken = np.random.default_rng(0).binomial(rounds, share, 100_000)
    assert np.mean(taken <= planned) >= ENOUGH - 0.005
    assert np.mean(taken <= planned - 1) < ENOUGH + 0.005


def test_who_always_takes_part_and_who_hardly_ever_does():
    assert chosen_rounds(7, 1.0) == chosen_rounds(7, 2.0) == 7
    assert chosen_rounds(7, 1e-9) == 0
