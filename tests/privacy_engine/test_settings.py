"""Keywords: what is calibrated, what contradicts itself, and what may be trained."""

import contextlib
import math

import pytest
import torch
from attached import attached, losses_of, small_batch, small_engine, small_model
from torch import nn

from fl_dp import PoissonSampler
from fl_dp.errors import ConfigError

ASSUMED = pytest.mark.filterwarnings("ignore::fl_dp.errors.AssumedSamplingWarning")


@ASSUMED
@pytest.mark.parametrize(
    ("batch_size", "sample_size", "epochs", "steps"),
    [(10, 1000, 2, 200), (30, 100, 5, 20)],  # 100 records in batches of 30 are four batches an epoch
)
def test_noise_is_calibrated_to_the_target_after_all_epochs(batch_size, sample_size, epochs, steps):
    options = {"batch_size": batch_size, "sample_size": sample_size, "epochs": epochs, "accountant": "rdp"}
    engine = small_engine(small_model(), target_epsilon=3.0, **options)
    assert 2.9 < engine.get_privacy_spent(steps=steps).epsilon <= 3.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"noise_multiplier": None}, "noise_multiplier, or target_epsilon"),
        ({"target_epsilon": 1.0}, "not both"),
        ({"noise_multiplier": None, "target_epsilon": 1.0}, "needs epochs"),
        ({"noise_multiplier": None, "target_epsilon": 1.0, "epochs": 0}, "epochs=0"),
        ({"noise_multiplier": None, "target_epsilon": 1.0, "epochs": math.inf}, "epochs=inf"),
        ({"noise_multiplier": -1e-9}, "=-1e-09 >= 0"),
        ({"noise_multiplier": math.inf}, "finite"),
        ({"noise_multiplier": math.nan}, "nan"),
        ({"batch_size": 1001}, "batch_size=1001 <= sample_size=1000"),
        ({"batch_size": 0}, "batch_size=0 <= sample_size=1000"),
        # whose rounding is not paid for
        ({"batch_size": 2**20 + 1, "sample_size": 2**21}, "batch_size=1048577: expected at most 1048576"),
        ({"named_params": []}, "no parameter"),
        ({"named_params": nn.Linear(1, 1).named_parameters()}, "weight is not"),
        ({"max_grad_norm": 0.0}, "max_grad_norm=0.0"),
        ({"max_grad_norm": math.inf}, "max_grad_norm=inf"),
        ({"max_grad_norm": {"0": 0.1}}, "2.weight is in no group"),
        ({"max_grad_norm": {"0": 0.1, "2": -1.0}}, "max_grad_norm=-1.0"),
        ({"max_grad_norm": [0.3] * 4}, r"expected one number.* max_grad_norm=\{NAME: BOUND\}"),
        ({"clipping": "per_layer"}, "clipping='per_layer': expected one of abadi, automatic"),
        ({"accounting_mode": "rdp", "accountant": "rdp"}, "not both"),
        ({"accounting_mode": "gdp"}, "can report less"),
        ({"accounting_mode": "all"}, "one number"),
        ({"accountant": "prv"}, "prv"),
        ({"accountant": "no-such-accountant"}, "expected .*pld"),
        # of Opacus, private_CNN and fastDP
        ({"optimizer": object()}, r"attach\(optimizer, sampler=sampler\) takes it"),
        ({"data_loader": object()}, "what a PoissonSampler draws"),
        ({"criterion": object()}, "criterion=.* each example's own loss"),
        ({"noise_generator": object()}, "called generator="),
        ({"batch_first": True}, "first dimension"),
        ({"poisson_sampling": True}, "a PoissonSampler draws"),
        ({"grad_sample_mode": "ghost"}, "measured and chosen"),
        ({"secure_mode": True}, "from the system's entropy"),
        ({"mode": "ghost-mixed"}, "mode='ghost-mixed' cannot be honoured: 'ghost-mixed' is the default"),
        ({"fp16": True}, "autocast"),
        ({"alphas": (2, 3)}, r"alphas=.*its own orders"),
        ({"eps_error": 0.05}, "eps_error=0.05"),
        ({"numerical_stability_constant": 1e-6}, "without one"),
        ({"clipping_mode": "MixOpt"}, "clipping_mode='MixOpt' .*ghost_clipping and mixed choose others"),
        ({"clipping_fn": "automatic"}, "clipping='automatic' or 'abadi' chooses"),
        ({"clipping_style": ["0", "2"]}, r"max_grad_norm=\{NAME: BOUND\}"),
        ({"origin_params": ["_embeddings"]}, "origin_params=.* every parameter is clipped"),
        ({"num_steps": 100}, "epochs = num_steps"),
        ({"loss_reduction": "mean"}, "reduction='none'"),
        ({"num_GPUs": 8}, "ranks='all'"),
        ({"torch_seed_is_fixed": True}, "no seed decides"),
    ],
    ids=lambda options: next(iter(options)) if isinstance(options, dict) else None,
)
def test_contradictions_and_keywords_of_other_engines_are_refused(options, words):
    with pytest.raises(ConfigError, match=words):
        small_engine(small_model(), **{"noise_multiplier": 1.0, **options})


def test_an_unknown_keyword_is_refused_and_one_that_asks_for_nothing_is_honoured():
    with pytest.raises(TypeError, match="clip_everything"):
        small_engine(small_model(), noise_multiplier=1.0, clip_everything=True)
    assert small_engine(small_model(), noise_multiplier=1.0, fp16=False, origin_params=None)


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
    with pytest.raises(ConfigError, match=r"frozen|does not have"):
        optimizer.step(loss=losses)
    assert engine.steps == 0


@pytest.mark.parametrize(
    ("requires_grad", "has_grad", "words"),
    [
        (True, False, "named_params"),
        (False, True, r"frozen parameter of shape \(8, 6\).*left in it; call optimizer\.zero_grad\(\)"),
        (False, False, ""),
    ],
)
def test_a_parameter_that_the_engine_does_not_protect_is_refused_where_the_optimizer_would_move_it(
    requires_grad, has_grad, words
):
    """Optimizers move what has a gradient: one that was left there was made without noise."""
    model = small_model()
    engine = small_engine(model, noise_multiplier=1.0, named_params=model[2].named_parameters())
    for parameter in model[0].parameters():
        parameter.requires_grad_(requires_grad)
        parameter.grad = torch.ones_like(parameter) if has_grad else None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ConfigError, match=words) if words else contextlib.nullcontext():
        engine.attach(optimizer)


def test_a_sampler_that_draws_at_another_rate_is_refused():
    model = small_model()
    engine = small_engine(model, noise_multiplier=1.0)
    sampler = PoissonSampler(1000, expected_batch_size=20, physical_batch_size=5)
    with pytest.raises(ConfigError, match=r"rate 0\.02, but the engine accounts for steps at rate 0\.01"):
        engine.attach(torch.optim.SGD(model.parameters()), sampler=sampler)


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


def test_named_params_that_leave_nothing_to_train_are_refused_and_frozen_ones_are_left_out():
    model = small_model()
    model[0].requires_grad_(False)
    engine = small_engine(model, noise_multiplier=1.0)
    assert list(engine.parameters) == ["2.weight", "2.bias"]
    with pytest.raises(ConfigError, match="no parameter that requires gradients"):
        small_engine(model, noise_multiplier=1.0, named_params=model[0].named_parameters())
