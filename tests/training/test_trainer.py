"""A client's training as a whole: which trainer, which numbers, and whether they are numbers at all."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from trainers import plan_of, trainer_for

from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.records import NUMERICS
from fl_dp.training.private import PrivateTrainer
from fl_dp.training.trainer import as_arrays, is_finite, take_steps, trainable
from fl_dp.training.unprotected import UnprotectedTrainer


@pytest.fixture
def data():
    """40 records by a formula, the same on every machine."""
    x = torch.sin(torch.arange(200, dtype=torch.float64)).float().reshape(40, 5)
    return TensorData(x, torch.arange(40) % 3, ("a", "b", "c"))


def _model():
    model = nn.Linear(5, 3)
    with torch.no_grad():
        model.weight.copy_(torch.cos(torch.arange(15, dtype=torch.float64)).float().reshape(3, 5))
        model.bias.zero_()
    return model


# What a round gives from fixed data, weights, draws and noise. If a change of the code changes these numbers,
# it changes what a round computes: raise NUMERICS in fl_dp/records.py, and put the new numbers here.
PINNED_NUMERICS = 6
PINNED = {
    True: (
        "0.905976 0.538932 -0.293362 -0.941467 -0.656898 0.231943 0.840024 0.701413 -0.098062 "
        "-0.885154 -0.700463 0.073439 0.770539 0.809613 0.105902 0.070031 0.061520 -0.046330"
    ),
    False: (
        "0.440522 0.535342 0.137971 -0.386250 -0.555355 0.163231 0.565471 0.447819 -0.081555 "
        "-0.535948 -0.159162 0.404085 0.595819 0.239759 -0.336734 -0.001939 0.220290 -0.218351"
    ),
}


@pytest.mark.parametrize("private", [True, False])
def test_a_change_of_results_raises_the_numerics(data, private, monkeypatch):
    # else the last bit of a sum, which differs between machines, would decide all of the noise
    monkeypatch.setattr(Randomness, "digest", lambda self, numbers: bytes(16))
    noise_multiplier = 0.7 if private else 0.0
    plan = plan_of(private=private, noise_multiplier=noise_multiplier, momentum=0.9, max_grad_norm=0.5)
    model = _model()
    trainer = trainer_for(model, data, plan, key=bytes(range(32)))
    assert isinstance(trainer, PrivateTrainer if private else UnprotectedTrainer)
    take_steps(trainer, data, 3, 0.5, 7)
    arrays = as_arrays(trainable(model))
    found = np.concatenate([arrays["weight"].flatten(), arrays["bias"]])
    pinned = [float(number) for number in PINNED[private].split()]
    np.testing.assert_allclose(found, pinned, rtol=0, atol=2e-5)
    assert NUMERICS == PINNED_NUMERICS


def test_arrays_are_copies_of_the_trainable_parameters_alone():
    model = _model()
    model.bias.requires_grad_(False)
    arrays = as_arrays(trainable(model))
    assert arrays.keys() == {"weight"}
    arrays["weight"][:] = 7.0
    assert not (model.weight == 7.0).any()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_one_bad_number_is_found_and_large_ones_are_not_taken_for_it(bad):
    model = _model()
    model.weight.data.fill_(3e38)
    assert is_finite(trainable(model).values())
    model.weight.data[1, 2] = bad
    model.weight.data[0, 0] = math.inf  # which an infinity of the other sign must not cancel
    assert not is_finite(trainable(model).values())
