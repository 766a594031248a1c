"""Plans in phases become the entries of their rounds, and impossible ones are refused."""

import numpy as np
import pytest

from fl_dp.accounting.training_plan import (
    ENOUGH,
    Phase,
    TrainingPlan,
    planned_participations,
    steps_of_epochs,
)
from fl_dp.errors import ConfigError
from fl_dp.records import Entry


def test_rounds_follow_one_another():
    plan = TrainingPlan((Phase(100, 20, 2, 5, 1.5), Phase(100, 100, 1, 3, 2.0)))
    assert list(plan.rounds()) == [Entry(0.2, 1.5, 5), Entry(0.2, 1.5, 5), Entry(1.0, 2.0, 3)]


def test_noise_is_given_to_phases_that_have_none():
    assert Phase(100, 20, 2, 5).with_noise(3.0).noise_multiplier == 3.0
    assert Phase(100, 20, 2, 5, 1.5).with_noise(3.0).noise_multiplier == 1.5
    with pytest.raises(ConfigError, match="calibrate it first"):
        Phase(100, 20, 2, 5).round()


def test_epochs_are_rounded_up_to_steps():
    assert steps_of_epochs(10_000, 256, 5.0) == 196
    assert steps_of_epochs(256, 256, 0.5) == 1
    assert [steps_of_epochs(1, 1, epochs) for epochs in (1.0, 3.0)] == [1, 3]


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((0, 1, 1, 1), "records = 0"),
        ((10, 0, 1, 1), "batch-size = 0"),
        ((10, 11, 1, 1), "batch-size = 11: expected at most records = 10"),
        ((10, 1, 0, 1), "rounds = 0"),
        ((10, 1, 1, 0), "steps = 0"),
        ((10, 1, 1001, 1000), "at most 1000000 steps"),
        ((10, 1, 1, 1, 0.0), "noise-multiplier = 0.0"),
        ((10, 1, 1, 1, float("inf")), "noise-multiplier = inf"),
    ],
)
def test_numbers_out_of_range_are_refused_by_name(numbers, words):
    with pytest.raises(ConfigError, match=words):
        Phase(*numbers)


@pytest.mark.parametrize(("rounds", "share"), [(20, 0.5), (100, 0.1), (4, 0.5), (50, 0.02)])
def test_nine_of_ten_clients_take_part_no_more_often(rounds, share):
    planned = planned_participations(rounds, share)
    taken = np.random.default_rng(0).binomial(rounds, share, 100_000)
    assert np.mean(taken <= planned) >= ENOUGH - 0.005
    assert planned == 1 or np.mean(taken <= planned - 1) < ENOUGH + 0.005


def test_who_always_takes_part_and_who_hardly_ever_does():
    assert planned_participations(7, 1.0) == planned_participations(7, 2.0) == 7
    assert planned_participations(7, 1e-9) == 1
