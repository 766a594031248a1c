"""Keywords: what is calibrated, what contradicts itself, and what may be trained."""

import math

import pytest
import torch
from attached import attached, losses_of, small_batch, small_engine, small_model
from torch import nn

from fl_dp import PoissonSampler
from fl_dp.errors import ConfigError

ASSUMED = pytest.mark.filterwarnings("ignore::fl_dp.errors.AssumedSamplingWarning")


@ASSUMED
def test_noise_is_calibrated_to_the_target():
    engine = small_engine(small_model(), target_epsilon=3.0, epochs=2, accountant="rdp")
    assert 2.9 < engine.get_privacy_spent(steps=200).epsilon <= 3.0


@ASSUMED
def test_the_ordinary_loop_over_all_epochs_stays_within_the_target():
    """100 records in batches of 30 are four batches an epoch, not 100 / 30."""
    options = {"batch_size": 30, "sample_size": 100, "target_epsilon": 3.0, "epochs": 5}
    assert small_engine(small_model(), **options, accountant="rdp").get_privacy_spent(steps=20).epsilon <= 3.0


@pytest.mark.parametrize(("mode", "accountant"), [("rdp", "rdp"), ("rdp_cks", "rdp"), ("glw", "pld")])
def test_accounting_modes_of_private_cnn_choose_the_accountant(mode, accountant):
    assert small_engine(small_model(), noise_multiplier=1.0, accounting_mode=mode).accountant == accountant


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
        ({"target_epsilon": 1.0, "epochs": math.inf}, "epochs=inf"),
        ({"noise_multiplier": 1.0, "max_grad_norm": {"0": 0.1}}, "2.weight is in no group"),
        ({"noise_multiplier": 1.0, "max_grad_norm": {"0": 0.1, "2": -1.0}}, "max_grad_norm=-1.0"),
        (
            {"noise_multiplier": 1.0, "max_grad_norm": {"": 0.1}, "clipping_style": "layer-wise"},
            "for each group, or clipping_style='layer-wise', not both",
        ),
        ({"noise_multiplier": 1.0, "clipping_style": "flat"}, "one of all-layer, layer-wise, param-wise"),
        ({"noise_multiplier": 1.0, "clipping": "flat"}, "one of abadi, automatic, psac, global"),
        ({"noise_multiplier": 1.0, "clipping": "global"}, "needs Z"),
        ({"noise_multiplier": 1.0, "accounting_mode": "rdp", "accountant": "rdp"}, "not both"),
        ({"noise_multiplier": 1.0, "accountant": "prv"}, "no proven upper bound"),
        ({"noise_multiplier": 1.0, "accountant": "no-such-accountant"}, "expected .*pld"),
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
        small_engine(small_model(), **options)


def test_an_unknown_keyword_is_refused():
    with pytest.raises(TypeError, match="clip_everything"):
        small_engine(small_model(), noise_multiplier=1.0, clip_everything=True)


def test_parameters_keep_the_model_s_names_whatever_named_params_calls_them():
    x, y = small_batch()
    model = small_model()
    optimizer = torch.optim.SGD(model[2].parameters(), lr=1.0)
    engine = small_engine(model, noise_multiplier=1.0, named_params=model[2].named_parameters())
    engine.attach(optimizer)
    before = [p.detach().clone() for p in model.parameters()]
    optimizer.step(loss=losses_of(model, x, y))
    moved = [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
    assert moved == [False, False, True, True]


@pytest.mark.parametrize("change", ["frozen", "added"])
def test_parameters_that_change_sides_after_attach_are_refused(change):
    x, y = small_batch()
    model, optimizer, engine = attached()
    losses = losses_of(model, x, y)
    if change == "frozen":
        model[0].weight.requires_grad_(False)
    else:
        optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(3))]})
    with pytest.raises(ConfigError, match=r"frozen|was not given"):
        optimizer.step(loss=losses)
    assert engine.steps == 0


def test_a_parameter_that_the_engine_does_not_protect_is_refused():
    model = small_model()
    engine = small_engine(model, noise_multiplier=1.0, named_params=model[2].named_parameters())
    with pytest.raises(ConfigError, match="named_params"):
        engine.attach(torch.optim.SGD(model.parameters(), lr=0.1))


def test_a_sampler_that_draws_at_another_rate_is_refused():
    model = small_model()
    engine = small_engine(model, noise_multiplier=1.0)
    sampler = PoissonSampler(1000, expected_batch_size=20, physical_batch_size=5)
    with pytest.raises(ConfigError, match=r"rate 0\.02, the engine prices steps at 0\.01"):
        engine.attach(torch.optim.SGD(model.parameters()), sampler=sampler)


def test_a_sampler_that_draws_at_the_engine_s_rate_is_accepted():
    model = small_model()
    engine = small_engine(model, noise_multiplier=1.0)
    sampler = PoissonSampler(1000, expected_batch_size=10, physical_batch_size=5)
    engine.attach(torch.optim.SGD(model.parameters()), sampler=sampler)


@pytest.mark.parametrize(("with_grad", "refused"), [(True, True), (False, False)])
def test_a_frozen_parameter_outside_of_the_engine_is_refused_where_the_optimizer_would_move_it(
    with_grad, refused
):
    """Optimizers move what has a gradient: one that was left there was made without noise."""
    model = small_model()
    engine = small_engine(model, noise_multiplier=1.0, named_params=model[2].named_parameters())
    for parameter in model[0].parameters():
        parameter.requires_grad_(False)
        parameter.grad = torch.ones_like(parameter) if with_grad else None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if refused:
        with pytest.raises(ConfigError, match=r"of shape \(8, 6\) that the engine was not given"):
            engine.attach(optimizer)
    else:
        engine.attach(optimizer)


@pytest.mark.parametrize(
    ("given", "accountant"),
    [
        ({}, "pld"),
        ({"accountant": "rdp"}, "rdp"),
        ({"accounting_mode": "rdp"}, "rdp"),
        ({"accounting_mode": "rdp_cks"}, "rdp"),
        ({"accounting_mode": "glw"}, "pld"),
    ],
)
def test_the_accountant_by_either_keyword(given, accountant):
    assert small_engine(small_model(), noise_multiplier=1.0, **given).accountant == accountant


def test_a_keyword_that_asks_for_nothing_is_honoured():
    assert small_engine(small_model(), noise_multiplier=1.0, fp16=False, alphas=False)


@pytest.mark.parametrize(
    ("noise_multiplier", "words"),
    [(-1e-9, "=-1e-09 >= 0"), (math.inf, "finite"), (math.nan, "nan")],
)
def test_noise_that_is_no_number_from_zero_up_is_refused(noise_multiplier, words):
    with pytest.raises(ConfigError, match=words):
        small_engine(small_model(), noise_multiplier=noise_multiplier)


def test_named_params_that_leave_nothing_to_train_are_refused_and_frozen_ones_are_left_out():
    model = small_model()
    model[0].requires_grad_(False)
    engine = small_engine(model, noise_multiplier=1.0)
    assert list(engine.parameters) == ["2.weight", "2.bias"]
    with pytest.raises(ConfigError, match="no parameter that requires gradients"):
        small_engine(model, noise_multiplier=1.0, named_params=model[0].named_parameters())


@pytest.mark.parametrize(
    ("style", "bounds"),
    [
        ("all-layer", 0.1),
        ("layer-wise", {"0": 0.1 / 2**0.5, "2": 0.1 / 2**0.5}),
        ("param-wise", dict.fromkeys(["0.weight", "0.bias", "2.weight", "2.bias"], 0.05)),
    ],
)
def test_styles_split_the_bound_and_keep_the_sensitivity(style, bounds):
    engine = small_engine(small_model(), noise_multiplier=1.0, clipping_style=style)
    assert engine.max_grad_norm == pytest.approx(bounds)
    assert engine.sensitivity == pytest.approx(0.1)
