"""The familiar surface gives the same private step as the plain functions, and counts it."""

import math
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from fl_dp import PoissonSampler, PrivacyEngine, add_gaussian_noise, clipped_grad_sum
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


def test_the_ordinary_loop_over_all_epochs_stays_within_the_target():
    """100 records in batches of 30 are four batches an epoch, not 100 / 30."""
    options = {"batch_size": 30, "sample_size": 100, "target_epsilon": 3.0, "epochs": 5}
    assert _engine(_model(), **options, accountant="rdp").get_privacy_spent(steps=20).epsilon <= 3.0


@pytest.mark.parametrize(("mode", "accountant"), [("rdp", "rdp"), ("rdp_cks", "rdp"), ("glw", "pld")])
def test_accounting_modes_of_private_cnn_choose_the_accountant(mode, accountant):
    assert _engine(_model(), noise_multiplier=1.0, accounting_mode=mode).accountant == accountant


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
        ({"noise_multiplier": 1.0, "named_params": nn.Linear(1, 1).named_parameters()}, "weight is not"),
        ({"noise_multiplier": 1.0, "max_grad_norm": 0.0}, "max_grad_norm=0.0"),
        ({"noise_multiplier": 1.0, "max_grad_norm": math.inf}, "max_grad_norm=inf"),
        ({"target_epsilon": 1.0, "epochs": 0}, "epochs=0"),
        ({"noise_multiplier": 1.0, "accounting_mode": "rdp", "accountant": "rdp"}, "not both"),
        ({"noise_multiplier": 1.0, "accounting_mode": "gdp"}, "can report less"),
        ({"noise_multiplier": 1.0, "accounting_mode": "all"}, "one number"),
        ({"noise_multiplier": 1.0, "alphas": (2, 3)}, r"alphas=.*its own orders"),
        ({"noise_multiplier": 1.0, "eps_error": 0.05}, "eps_error=0.05"),
        ({"noise_multiplier": 1.0, "fp16": True}, "autocast"),
        ({"noise_multiplier": 1.0, "numerical_stability_constant": 1e-6}, "without one"),
    ],
)
def test_contradictions_are_refused(options, words):
    with pytest.raises(ConfigError, match=words):
        _engine(_model(), **options)


def test_an_unknown_keyword_is_refused():
    with pytest.raises(TypeError, match="clip_everything"):
        _engine(_model(), noise_multiplier=1.0, clip_everything=True)


def _attached(model=None, optimizer_class=torch.optim.SGD, lr=0.1, **options):
    model = _model() if model is None else model
    optimizer = optimizer_class(model.parameters(), lr=lr)
    engine = _engine(model, **{"noise_multiplier": 1.0, **options})
    engine.attach(optimizer)
    return model, optimizer, engine


def test_code_written_for_private_cnn_runs():
    model, (x, y) = _model(), _batch()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    engine = PrivacyEngine(
        model,
        batch_size=256,
        sample_size=50000,
        epochs=3,
        max_grad_norm=0.1,
        target_epsilon=3,
        ghost_clipping=True,
        mixed=True,
    )
    engine.attach(optimizer)
    for i in range(4):
        loss = F.cross_entropy(model(x), y, reduction="none")
        if i % 2:
            optimizer.step(loss=loss)
            optimizer.zero_grad()
        else:
            optimizer.virtual_step(loss=loss)
    assert engine.steps == 2
    assert 0 < optimizer.get_privacy_spent().epsilon < 3
    assert optimizer.get_training_stats()["snr"] > 0
    assert optimizer.privacy_engine is engine


def test_a_step_without_losses_ends_the_batch_and_an_empty_one_is_noise():
    x, y = _batch()
    model, optimizer, engine = _attached(lr=1.0)
    before = model[0].weight.detach().clone()
    optimizer.step(loss=None)
    noise = (before - model[0].weight.detach()) * 10
    assert engine.steps == 1
    assert 0.05 < float(noise.std()) < 0.2  # noise_multiplier * max_grad_norm = 0.1
    twin, twin_optimizer, _ = _attached(lr=1.0)
    for each, its_optimizer in ((model, optimizer), (twin, twin_optimizer)):
        each.load_state_dict(_model().state_dict())
        its_optimizer.privacy_engine._generator.manual_seed(3)
    optimizer.virtual_step(loss=_losses(model, x, y))
    optimizer.step(loss=None)
    twin_optimizer.step(loss=_losses(twin, x, y))
    assert torch.equal(model[0].weight, twin[0].weight)


def test_the_loop_of_the_sampler_counts_every_step():
    model, optimizer, engine = _attached()
    data = TensorDataset(*_batch(40))
    sampler = PoissonSampler(40, expected_batch_size=2, physical_batch_size=2, steps=12)
    for batches in sampler.logical_batches(DataLoader(data, batch_sampler=sampler)):
        for x, y in batches:
            optimizer.virtual_step(loss=_losses(model, x, y))
        optimizer.step(loss=None)
    assert engine.steps == 12


@pytest.mark.parametrize(
    "optimizer_class",
    [
        torch.optim.SGD,
        torch.optim.Adam,
        torch.optim.AdamW,
        torch.optim.RMSprop,
        torch.optim.Adagrad,
        torch.optim.NAdam,
        torch.optim.Adadelta,
        torch.optim.Rprop,
    ],
)
def test_any_optimizer_gets_the_gradient_it_would_get_by_hand(optimizer_class):
    x, y = _batch()
    model, optimizer, engine = _attached(optimizer_class=optimizer_class)
    twin = _model()
    by_hand = optimizer_class(twin.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(4)
    engine._generator.manual_seed(4)
    for _ in range(3):
        optimizer.step(loss=_losses(model, x, y))
        clipped = clipped_grad_sum(_losses(twin, x, y), dict(twin.named_parameters()), max_grad_norm=0.1)
        noisy = add_gaussian_noise(clipped, noise_multiplier=1.0, generator=generator)
        for name, parameter in twin.named_parameters():
            parameter.grad = noisy[name] / 10
        by_hand.step()
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("attach_first", [True, False])
def test_schedulers_and_parameter_groups_work_made_before_or_after(attach_first):
    """PyTorch warns when a scheduler and a step do not know each other, and warnings are errors here."""
    x, y = _batch()
    model = _model()
    groups = [{"params": model[0].parameters(), "lr": 0.0}, {"params": model[2].parameters(), "lr": 1.0}]
    optimizer = torch.optim.SGD(groups)
    engine = _engine(model, noise_multiplier=1.0)
    if attach_first:
        engine.attach(optimizer)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
    if not attach_first:
        engine.attach(optimizer)
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer.step(loss=_losses(model, x, y))
    scheduler.step()
    engine.detach()
    assert [group["lr"] for group in optimizer.param_groups] == [0.0, 0.1]
    assert torch.equal(model[0].weight, start["0.weight"])
    assert not torch.equal(model[2].weight, start["2.weight"])
    scheduler.step()


def test_zero_grad_clears_grad_and_keeps_what_virtual_steps_gathered():
    x, y = _batch()
    model, optimizer, engine = _attached()
    optimizer.virtual_step(loss=_losses(model, x, y))
    optimizer.zero_grad()
    assert len(engine._pending.norms) == 12
    optimizer.step(loss=None)
    assert model[0].weight.grad is not None
    optimizer.zero_grad()
    assert model[0].weight.grad is None


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_saved_within_a_logical_batch_training_goes_on_with_the_same_noise(momentum, tmp_path):
    x, y = _batch()

    def train(model, optimizer, batches):
        for i in batches:
            loss = _losses(model, x[i : i + 4], y[i : i + 4])
            (optimizer.step if i == 8 else optimizer.virtual_step)(loss=loss)

    def attached():
        model = _model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=momentum)
        engine = _engine(model, noise_multiplier=1.0)
        engine.attach(optimizer)
        return model, optimizer, engine

    whole = attached()
    train(*whole[:2], [0, 4, 8, 0])
    torch.save([part.state_dict() for part in whole], tmp_path / "checkpoint.pt")
    train(*whole[:2], [4, 8, 0, 8])
    resumed = attached()
    for part, state in zip(resumed, torch.load(tmp_path / "checkpoint.pt"), strict=True):
        part.load_state_dict(state)
    train(*resumed[:2], [4, 8, 0, 8])
    for a, b in zip(whole[0].parameters(), resumed[0].parameters(), strict=True):
        assert torch.equal(a, b)
    assert resumed[2].get_privacy_spent() == whole[2].get_privacy_spent()
    assert resumed[2].steps == 3


@pytest.mark.parametrize(
    "options",
    [{"noise_multiplier": 2.0}, {"batch_size": 20}, {"max_grad_norm": 1.0}, {"generator": "secure"}],
    ids=lambda options: next(iter(options)),
)
def test_the_state_of_an_engine_with_other_settings_is_refused(options):
    state = _engine(_model(), noise_multiplier=1.0).state_dict()
    with pytest.raises(ConfigError, match="saved engine had"):
        _engine(_model(), **{"noise_multiplier": 1.0, **options}).load_state_dict(state)


def test_secure_noise_in_a_step_and_its_state():
    x, y = _batch()
    weights = []
    for _ in range(2):
        model, optimizer, engine = _attached(generator="secure")
        optimizer.step(loss=_losses(model, x, y))
        weights.append(model[0].weight.detach())
    assert not torch.equal(*weights)
    resumed = _attached(generator="secure")[2]
    resumed.load_state_dict(engine.state_dict())
    assert resumed.steps == 1


def test_training_stats_are_those_of_the_last_step():
    x, y = _batch()
    model, optimizer, engine = _attached(max_grad_norm=0.5)
    assert set(engine.get_training_stats().values()) == {None} | {engine.get_training_stats()["noise_limit"]}
    x[0] = math.nan
    losses = _losses(model, x, y)
    norms = clipped_grad_sum(
        _losses(model, x, y), dict(model.named_parameters()), max_grad_norm=0.5
    ).norms.nan_to_num(math.inf)
    optimizer.step(loss=losses)
    stats = engine.get_training_stats()
    factors = (0.5 / norms).clamp_max(1.0)
    assert stats["min_clip"] == 0.0
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
    x, y = _batch()
    model, optimizer, engine = _attached(record_snr=False)
    optimizer.step(loss=_losses(model, x, y))
    stats = engine.get_training_stats()
    assert {name for name, value in stats.items() if value is None} == {"signal", "noise", "snr"}


def test_a_locked_engine_refuses_steps_until_it_is_unlocked():
    x, y = _batch()
    model, optimizer, engine = _attached()
    engine.lock()
    for step, loss in (
        (optimizer.step, _losses(model, x, y)),
        (optimizer.virtual_step, _losses(model, x, y)),
        (optimizer.step, None),
    ):
        with pytest.raises(ConfigError, match="unlock"):
            step(loss=loss)
    assert engine.steps == 0
    engine.unlock()
    optimizer.step(loss=_losses(model, x, y))
    assert engine.steps == 1


@pytest.mark.parametrize(
    ("args", "options", "words"),
    [
        ((), {}, "needs loss="),
        ((lambda: None,), {"loss": None}, "closure"),
        ((), {"loss": None, "closure": lambda: None}, "closure"),
        ((), {"loss": None, "scale": 2.0}, "scale"),
    ],
)
def test_a_step_takes_losses_and_nothing_else(args, options, words):
    _, optimizer, engine = _attached()
    with pytest.raises(TypeError, match=words):
        optimizer.step(*args, **options)
    assert engine.steps == 0


def test_optimizers_that_need_a_closure_and_second_engines_are_refused():
    model, optimizer, engine = _attached()
    with pytest.raises(ConfigError, match="LBFGS"):
        _engine(model, noise_multiplier=1.0).attach(torch.optim.LBFGS(model.parameters()))
    with pytest.raises(ConfigError, match="Another engine"):
        _engine(model, noise_multiplier=1.0).attach(optimizer)
    with pytest.raises(ConfigError, match="attached to an optimizer already"):
        engine.attach(torch.optim.SGD(model.parameters()))


def test_inputs_that_the_checks_cannot_imitate_are_refused_by_name():
    class ByName(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 3)

        def forward(self, features):
            return self.layer(features["x"] if isinstance(features, dict) else features)

    x, y = _batch()
    model, optimizer, _ = _attached(ByName())
    with pytest.raises(ConfigError, match=r"found \(features=\).*Wrap"):
        optimizer.step(loss=F.cross_entropy(model(features=x), y, reduction="none"))
    with pytest.raises(ConfigError, match=r"found \(dict\)"):
        optimizer.step(loss=F.cross_entropy(model({"x": x}), y, reduction="none"))
    optimizer.step(loss=_losses(model, x, y))


def test_parameters_keep_the_model_s_names_whatever_named_params_calls_them():
    x, y = _batch()
    model = _model()
    optimizer = torch.optim.SGD(model[2].parameters(), lr=1.0)
    engine = _engine(model, noise_multiplier=1.0, named_params=model[2].named_parameters())
    engine.attach(optimizer)
    before = [p.detach().clone() for p in model.parameters()]
    optimizer.step(loss=_losses(model, x, y))
    moved = [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
    assert moved == [False, False, True, True]


@pytest.mark.parametrize("change", ["frozen", "added"])
def test_parameters_that_change_sides_after_attach_are_refused(change):
    x, y = _batch()
    model, optimizer, engine = _attached()
    losses = _losses(model, x, y)
    if change == "frozen":
        model[0].weight.requires_grad_(False)
    else:
        optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(3))]})
    with pytest.raises(ConfigError, match=r"frozen|was not given"):
        optimizer.step(loss=losses)
    assert engine.steps == 0


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
