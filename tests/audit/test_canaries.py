"""Gradient canaries: unit vectors that the step clips to C exactly, and the scores of who watches them."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fl_dp.accounting.privacy_loss import StepLoss
from fl_dp.audit.canaries import GradientCanaries, WatchedGradients, hostile_learning_rate
from fl_dp.audit.guessing import find_epsilon
from fl_dp.audit.noise_family import NoiseFamily
from fl_dp.engine.clipping import clipped_grad_sum
from fl_dp.engine.probe import probe
from fl_dp.errors import ConfigError
from fl_dp.records import Entry, RoundPlan
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


def _plan(batch, noise_multiplier=1.0, max_grad_norm=0.5):
    return RoundPlan(
        run="audit",
        server_round=1,
        model="linear",
        steps=1,
        expected_batch_size=batch,
        learning_rate=hostile_learning_rate(batch),
        momentum=0.0,
        noise_multiplier=noise_multiplier,
        max_grad_norm=max_grad_norm,
    )


def test_watched_axes_score_each_step_by_its_likelihood_ratio():
    plan = _plan(4, noise_multiplier=0.8)
    canaries = WatchedGradients(8, 8, plan)
    before = {"weights.weight": np.zeros((1, 9), dtype=np.float32)}
    outcomes = np.linspace(-3, 3, 9)
    after = {"weights.weight": (-outcomes * 1000.0 * 0.5).astype(np.float32)[None]}
    expected = StepLoss(0.5, 0.8).loss(outcomes[:8])
    np.testing.assert_allclose(canaries.scores(before, after), expected, rtol=1e-5, atol=1e-5)


def test_whoever_sees_every_step_finds_more_than_their_sum_shows():
    """50 steps at sample rate 0.02: a draw stands out of its own step, and is lost among 50."""
    rng, count, steps = np.random.default_rng(0), 2000, 50
    plan = _plan(40, noise_multiplier=0.5)
    canaries = WatchedGradients(count, count, plan)
    included = rng.random(count) < 0.5
    drawn = included & (rng.random((steps, count)) < 0.02)
    outcomes = drawn + 0.5 * rng.standard_normal((steps, count))
    before = {"weights.weight": np.zeros((1, count + 1), dtype=np.float32)}
    scores = np.zeros(count)
    for outcome in outcomes:
        after = -1000.0 * 0.5 * np.append(outcome, 0.0)[None]
        scores += canaries.scores(before, {"weights.weight": after.astype(np.float32)})
    family = NoiseFamily(Entry(0.02, 0.5, steps), 1e-5)
    watched = find_epsilon(scores, included, family).epsilon
    assert watched > 2 * find_epsilon(outcomes.sum(axis=0), included, family).epsilon > 0
