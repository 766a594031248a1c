"""Gradient canaries: unit vectors that the shipped step clips to C exactly, wherever training has led."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fl_dp.audit.canaries import GradientCanaries
from fl_dp.engine.clipping import clipped_grad_sum
from fl_dp.engine.probe import probe
from fl_dp.errors import ConfigError
from fl_dp.training.trainer import as_arrays, trainable

BOUND = 0.3


def _clipped(canaries, data, indices):
    x, y = data.batch(indices)
    losses = F.cross_entropy(canaries.model(x), y, reduction="none")
    axes = probe(canaries.model, x)
    return clipped_grad_sum(losses, dict(canaries.model.named_parameters()), max_grad_norm=BOUND, axes=axes)


@pytest.mark.parametrize("moved", [0.0, 1.0])
def test_each_canary_moves_its_own_weight_by_the_bound(moved):
    canaries = GradientCanaries(5, 8, BOUND)
    with torch.no_grad():  # as far as training can lead, with noise of several times a canary's own share
        canaries.model.weights.weight.fill_(-moved * 5 / (10 * BOUND))
    included = torch.tensor([True, False, True, True, False])
    data = canaries.data(included)
    assert len(data) == 3 + 3
    sums = _clipped(canaries, data, torch.arange(len(data))).grads["weights.weight"]
    expected = BOUND * torch.tensor([[1.0, 0.0, 1.0, 1.0, 0.0, 3.0]])
    torch.testing.assert_close(sums, expected, rtol=1e-4, atol=1e-9)  # the engine rounds norms up


def test_scores_are_what_each_canary_moved():
    canaries = GradientCanaries(4, 4, BOUND)
    before = as_arrays(trainable(canaries.model))
    after = {"weights.weight": before["weights.weight"] - np.array([[1, 2, 3, 4, 5]], dtype=np.float32)}
    assert canaries.scores(before, after).tolist() == [1, 2, 3, 4]


def test_more_canaries_than_records_and_none_at_all_are_refused():
    with pytest.raises(ConfigError, match="canaries=5"):
        GradientCanaries(5, 4, BOUND)
    with pytest.raises(ConfigError, match="canaries=0"):
        GradientCanaries(0, 4, BOUND)
    with pytest.raises(ConfigError, match="None of 2"):
        GradientCanaries(2, 2, BOUND).data(torch.zeros(2, dtype=torch.bool))
