"""The familiar surface gives the same private step as the plain functions, and counts it."""

import math
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fl_dp import PrivacyEngine, clipped_grad_sum
from fl_dp.errors import ConfigError, ProbeError


def _model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def _batch(n=12):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, 6, generator=generator), torch.randint(0, 3, (n,), generator=generator)


def _engine(model, **options):
    return PrivacyEngine(model, **{"batch_size": 10, "sample_size": 1000, "max_grad_norm": 0.1, **options})


def _without_noise(model, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return _engine(model, noise_multiplier=0, **options)


def _losses(model, x, y):
    return F.cross_entropy(model(x), y, reduction="none")


@pytest.mark.parametrize(
    "mode", [{}, {"mixed": False}, {"ghost_clipping": False}], ids=["mixed", "ghost", "instantiate"]
)
def test_a_step_is_the_clipped_sum_over_the_batch_size(mode):
    x, y = _batch()
    model, twin = _model(), _model()
    expected = clipped_grad_sum(_losses(twin, x, y), dict(twin.named_parameters()), max_grad_norm=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    _without_noise(model, **mode).attach(optimizer)
    optimizer.step(loss=_losses(model, x, y))
    for name, parameter in model.named_parameters():
        start = dict(twin.named_parameters())[name]
        torch.testing.assert_close(parameter, start - 2.0 * expected.grads[name] / 10)


def test_virtual_steps_add_up_to_one_step():
    x, y = _batch()
    whole, parts = _model(), _model()
    optimizers = [torch.optim.Adam(m.parameters(), lr=0.1) for m in (whole, parts)]
    for model, optimizer in zip((whole, parts), optimizers, strict=True):
        _without_noise(model).attach(optimizer)
    optimizers[0].step(loss=_losses(whole, x, y))
    optimizers[1].virtual_step(loss=_losses(parts, x[:5], y[:5]))
    optimizers[1].step(loss=_losses(parts, x[5:], y[5:]))
    for a, b in zip(whole.parameters(), parts.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_same_generator_state_same_noise_and_other_state_other_noise():
    x, y = _batch()
    weights = []
    for seed in (5, 5, 6):
        model = _model()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        _engine(model, noise_multiplier=1.0, generator=torch.Generator().manual_seed(seed)).attach(optimizer)
        optimizer.step(loss=_losses(model, x, y))
        weights.append(model[0].weight.detach())
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_steps_are_counted_and_priced():
    model, (x, y) = _model(), _batch()
    engine = _engine(model, noise_multiplier=1.0, accountant="rdp")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine.attach(optimizer)
    assert engine.get_privacy_spent().epsilon == 0.0
    optimizer.step(loss=_losses(model, x, y))
    first = engine.get_privacy_spent()
    optimizer.step(loss=_losses(model, x, y))
    second = engine.get_privacy_spent()
    assert (first.steps, second.steps) == (1, 2)
    assert 0 < first.epsilon < second.epsilon < math.inf
    assert second.delta == 1e-5


def test_noise_is_calibrated_to_the_target():
    engine = _engine(_model(), target_epsilon=3.0, epochs=2, accountant="rdp")
    engine.steps = 200
    assert 2.9 < engine.get_privacy_spent().epsilon <= 3.0


def test_no_noise_warns_and_its_epsilon_is_infinite():
    model, (x, y) = _model(), _batch()
    with pytest.warns(UserWarning, match="nothing is protected"):
        engine = _engine(model, noise_multiplier=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine.attach(optimizer)
    optimizer.step(loss=_losses(model, x, y))
    assert engine.get_privacy_spent().epsilon == math.inf


def test_detach_gives_the_optimizer_its_step_back():
    model, (x, y) = _model(), _batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine = _engine(model, noise_multiplier=1.0)
    engine.attach(optimizer)
    engine.detach()
    assert not hasattr(optimizer, "virtual_step")
    _losses(model, x, y).mean().backward()
    optimizer.step()
    assert engine.steps == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "noise_multiplier, or target_epsilon"),
        ({"noise_multiplier": 1.0, "target_epsilon": 1.0}, "not both"),
        ({"target_epsilon": 1.0}, "needs epochs"),
        ({"noise_multiplier": -1.0}, "noise_multiplier=-1.0"),
        ({"noise_multiplier": 1.0, "batch_size": 2000}, "batch_size=2000"),
        ({"noise_multiplier": 1.0, "named_params": []}, "no parameter"),
    ],
)
def test_contradictions_are_refused(options, words):
    with pytest.raises(ConfigError, match=words):
        _engine(_model(), **options)


def test_an_unknown_keyword_is_refused():
    with pytest.raises(TypeError, match="clip_everything"):
        _engine(_model(), noise_multiplier=1.0, clip_everything=True)


def test_a_parameter_that_the_engine_does_not_protect_is_refused():
    model = _model()
    engine = _engine(model, noise_multiplier=1.0, named_params=model[2].named_parameters())
    with pytest.raises(ConfigError, match="named_params"):
        engine.attach(torch.optim.SGD(model.parameters(), lr=0.1))


def test_a_model_that_mixes_examples_is_refused_at_the_first_step():
    model = nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3, affine=False, track_running_stats=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    _engine(model, noise_multiplier=1.0).attach(optimizer)
    x, y = _batch()
    with pytest.raises(ProbeError):
        optimizer.step(loss=_losses(model, x, y))
