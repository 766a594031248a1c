"""Statistics tell what the last step did."""

import math

import pytest
import torch
from attached import attached, losses_of, small_batch, small_model, without_noise

from fl_dp import clipped_grad_sum


def test_training_stats_are_those_of_the_last_step():
    x, y = small_batch()
    model, optimizer, engine = attached(max_grad_norm=0.5)
    assert set(engine.get_training_stats().values()) == {None}
    x[0] = math.nan
    losses = losses_of(model, x, y)
    norms = clipped_grad_sum(
        losses_of(model, x, y), dict(model.named_parameters()), max_grad_norm=0.5
    ).norms.nan_to_num(math.inf)
    optimizer.step(loss=losses)
    stats = engine.get_training_stats()
    factors = (0.5 / norms).clamp_max(1.0)
    assert stats["min_clip"] == 0.0
    assert stats["non_finite"] == 1.0
    assert stats["max_clip"] == pytest.approx(float(factors.max()))
    assert stats["med_clip"] == pytest.approx(float(factors.median()))
    size = sum(p.numel() for p in model.parameters())
    assert stats["noise_limit"] == pytest.approx(0.5 * math.sqrt(size))
    assert stats["noise"] == pytest.approx(stats["noise_limit"], rel=0.4)
    assert stats["snr"] == pytest.approx(stats["signal"] / stats["noise"])
    optimizer.step(loss=None)
    assert engine.get_training_stats()["med_clip"] is None
    assert engine.get_training_stats()["signal"] == 0.0


def test_without_record_snr_only_signal_and_noise_are_missing():
    x, y = small_batch()
    model, optimizer, engine = attached(record_snr=False)
    optimizer.step(loss=losses_of(model, x, y))
    stats = engine.get_training_stats()
    assert {name for name, value in stats.items() if value is None} == {"signal", "noise", "snr"}


def test_with_several_bounds_clips_are_over_examples_and_groups():
    """In each of the two layers the factor is C / (norm + 0.01), by the layer's own bound and norm."""
    x, y = small_batch()
    bounds = {"0": 0.3, "2": 0.4}
    model, optimizer, engine = attached(max_grad_norm=bounds, clipping="automatic")
    x[0] = math.inf
    norms = clipped_grad_sum(
        losses_of(model, x, y), dict(model.named_parameters()), max_grad_norm=bounds
    ).norms
    optimizer.virtual_step(loss=losses_of(model, x[:5], y[:5]))
    optimizer.step(loss=losses_of(model, x[5:], y[5:]))
    stats = engine.get_training_stats()
    factors = torch.tensor([0.3, 0.4]) / (norms[1:] + 0.01)
    assert stats["max_clip"] == pytest.approx(float(factors.max()))
    assert (stats["min_clip"], stats["non_finite"]) == (0.0, 1.0)
    size = sum(p.numel() for p in model.parameters())
    assert stats["noise_limit"] == pytest.approx(0.5 * math.sqrt(size))


def test_without_noise_there_is_no_ratio():
    x, y = small_batch()
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters())
    engine = without_noise(model)
    engine.attach(optimizer)
    optimizer.step(loss=losses_of(model, x, y))
    stats = engine.get_training_stats()
    assert (stats["snr"], stats["noise_limit"], stats["noise"]) == (None, None, 0.0)
    assert stats["signal"] > 0
