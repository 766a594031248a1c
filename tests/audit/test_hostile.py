"""The hostile server's scores."""

import numpy as np

from fl_dp.accounting.privacy_loss import StepLoss
from fl_dp.audit.guessing import find_epsilon
from fl_dp.audit.hostile import WatchedGradients, hostile_learning_rate
from fl_dp.audit.noise_family import NoiseFamily
from fl_dp.records import Entry, RoundPlan


def _plan(batch, noise_multiplier=1.0, max_grad_norm=0.5):
    return RoundPlan(
        run="audit", server_round=1, model="linear", steps=1, expected_batch_size=batch,
        learning_rate=hostile_learning_rate(batch), momentum=0.0, noise_multiplier=noise_multiplier,
        max_grad_norm=max_grad_norm,
    )  # fmt: skip


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
