"""The hostile server's scores: what it solves for, and what it refuses."""

import numpy as np
import pytest
import torch

from fl_dp.accounting.privacy_loss import StepLoss
from fl_dp.audit import hostile
from fl_dp.audit.guessing import find_epsilon_by_f_dp
from fl_dp.audit.hostile import HostileRecords, WatchedGradients, hostile_learning_rate
from fl_dp.audit.noise_family import NoiseFamily
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError
from fl_dp.form import Form
from fl_dp.models.build import build_model
from fl_dp.records import Entry, RoundPlan
from fl_dp.training.trainer import as_arrays, trainable

CLASSES = tuple("0123456789")


def _plan(batch, noise_multiplier=1.0, max_grad_norm=0.5):
    return RoundPlan(
        run="audit", server_round=1, model="linear", steps=1, expected_batch_size=batch,
        learning_rate=hostile_learning_rate(batch), momentum=0.0, noise_multiplier=noise_multiplier,
        max_grad_norm=max_grad_norm,
    )  # fmt: skip


def _hostile(count):
    images = torch.zeros(5, 1, 8, 8, dtype=torch.uint8)
    known = TensorData(images, torch.zeros(5, dtype=torch.int64), CLASSES)
    return HostileRecords(build_model("linear", Form((1, 8, 8), 10), seed=0), "linear", known, count)


def _gradient(canaries, numbers):
    """The sum of clipped gradients of these canaries, computed one at a time, by name."""
    everyone = canaries.data(torch.ones(canaries.count, dtype=torch.bool))
    x, y = everyone.batch(torch.arange(len(everyone)))
    first = len(everyone) - canaries.count
    total = {name: torch.zeros_like(p) for name, p in canaries.model.named_parameters()}
    for number in numbers:
        at = first + number
        loss = torch.nn.functional.cross_entropy(canaries.model(x[at : at + 1]), y[at : at + 1])
        grads = torch.autograd.grad(loss, list(canaries.model.parameters()))
        length = torch.cat([grad.flatten() for grad in grads]).norm()
        for name, grad in zip(total, grads, strict=True):
            total[name] += 0.5 * grad / length
    return total


def test_without_noise_every_canary_is_solved_for():
    canaries = _hostile(100)
    plan = _plan(50)
    canaries.watch(plan)
    before = as_arrays(trainable(canaries.model))
    drawn = [3, 4, 70]
    moved = {
        name: hostile.hostile_learning_rate(1) * g.numpy() for name, g in _gradient(canaries, drawn).items()
    }
    scores = canaries.scores(before, {name: before[name] - moved[name] for name in before})
    deviation = float(canaries._inverse.diagonal().sqrt().median())
    step = StepLoss(50 / canaries.public_size, deviation)
    assert 1.0 <= deviation < 1.05
    for canary, score in enumerate(scores):
        assert score == pytest.approx(float(step.loss(float(canary in drawn))), abs=0.005)


def test_included_canaries_stand_behind_the_known_records():
    canaries = _hostile(4)
    data = canaries.data(torch.tensor([True, False, False, True]))
    assert len(data) == 5 + 2
    assert canaries.public_size == 5 + 4


def test_the_clipping_bound_cuts_every_canary():
    canaries = _hostile(10)
    assert canaries.max_grad_norm(1.0) == 1.0
    assert 1.0 < canaries.max_grad_norm(1e6) < 20


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
    watched = find_epsilon_by_f_dp(scores, included, family).epsilon
    assert watched > 2 * find_epsilon_by_f_dp(outcomes.sum(axis=0), included, family).epsilon > 0


def test_canaries_that_are_too_many_or_depend_on_one_another_are_refused(monkeypatch):
    with pytest.raises(ConfigError, match="depend on one another"):
        hostile._inverse(torch.ones(2, 2, dtype=torch.float64))
    monkeypatch.setattr(hostile, "_MOST_NUMBERS", 1000)
    with pytest.raises(ConfigError, match="canaries = 10: their gradients have 6500 numbers"):
        _hostile(10)
