"""The familiar surface gives the same private step as the plain functions, and counts it."""

import math

import pytest
import torch
import torch.nn.functional as F
from attached import attached, losses_of, small_batch, small_engine, small_model, without_noise
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from fl_dp import PoissonSampler, PrivacyEngine, add_gaussian_noise, clipped_grad_sum
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.engine.bounds import split_bound
from fl_dp.engine.clip_functions import Psac, clip_function
from fl_dp.errors import ConfigError, ProbeError
from fl_dp.privacy_engine.spent import PrivacySpent
from fl_dp.records import Entry

ASSUMED = pytest.mark.filterwarnings("ignore::fl_dp.errors.AssumedSamplingWarning")


@pytest.mark.parametrize(
    "mode", [{}, {"mixed": False}, {"ghost_clipping": False}], ids=["mixed", "ghost", "instantiate"]
)
def test_a_step_is_the_clipped_sum_over_the_batch_size(mode):
    x, y = small_batch()
    model, twin = small_model(), small_model()
    expected = clipped_grad_sum(losses_of(twin, x, y), dict(twin.named_parameters()), max_grad_norm=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    without_noise(model, **mode).attach(optimizer)
    optimizer.step(loss=losses_of(model, x, y))
    for name, parameter in model.named_parameters():
        start = dict(twin.named_parameters())[name]
        torch.testing.assert_close(parameter, start - 2.0 * expected.grads[name] / 10)


def test_virtual_steps_add_up_to_one_step():
    x, y = small_batch()
    whole, parts = small_model(), small_model()
    optimizers = [torch.optim.Adam(m.parameters(), lr=0.1) for m in (whole, parts)]
    for model, optimizer in zip((whole, parts), optimizers, strict=True):
        without_noise(model).attach(optimizer)
    optimizers[0].step(loss=losses_of(whole, x, y))
    optimizers[1].virtual_step(loss=losses_of(parts, x[:5], y[:5]))
    optimizers[1].step(loss=losses_of(parts, x[5:], y[5:]))
    for a, b in zip(whole.parameters(), parts.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_same_generator_state_same_noise_and_other_state_other_noise():
    x, y = small_batch()
    weights = []
    for seed in (5, 5, 6):
        model = small_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        small_engine(model, noise_multiplier=1.0, generator=torch.Generator().manual_seed(seed)).attach(
            optimizer
        )
        optimizer.step(loss=losses_of(model, x, y))
        weights.append(model[0].weight.detach())
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@ASSUMED
def test_steps_are_counted_and_priced():
    model, (x, y) = small_model(), small_batch()
    engine = small_engine(model, noise_multiplier=1.0, accountant="rdp")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine.attach(optimizer)
    assert engine.get_privacy_spent().epsilon == 0.0
    optimizer.step(loss=losses_of(model, x, y))
    first = engine.get_privacy_spent()
    optimizer.step(loss=losses_of(model, x, y))
    second = engine.get_privacy_spent()
    assert (first.steps, second.steps) == (1, 2)
    assert 0 < first.epsilon < second.epsilon < math.inf
    assert second.delta == 1e-5


@ASSUMED
@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_the_price_is_that_of_the_mechanism_whose_steps_were_taken(accountant):
    _, optimizer, engine = attached(noise_multiplier=0.8, accountant=accountant, batch_size=20)
    for _ in range(3):
        optimizer.step(loss=None)
    entry = Entry(20 / 1000, 0.8, 3)
    assert engine.sample_rate == entry.sample_rate
    expected = compute_epsilon([entry], 1e-5, accountant)
    assert engine.get_privacy_spent() == PrivacySpent(expected, 1e-5, 3, "assumed")
    longer = compute_epsilon([Entry(20 / 1000, 0.8, 40)], 1e-5, accountant)
    assert engine.get_privacy_spent(steps=40) == PrivacySpent(longer, 1e-5, 40, "assumed")
    assert engine.get_privacy_spent(steps=0).epsilon == 0.0


def test_the_delta_is_the_one_asked_for():
    engine = small_engine(small_model(), noise_multiplier=1.0, target_delta=1e-7)
    assert (engine.target_delta, engine.get_privacy_spent().delta) == (1e-7, 1e-7)
    assert small_engine(small_model(), noise_multiplier=1.0).target_delta == 1e-5


def test_a_step_counts_even_if_its_noise_fails_and_its_batch_is_gone(monkeypatch):
    """Part of the noise may have been drawn: the step is paid, and its records are in no later step."""
    x, y = small_batch()
    model, optimizer, engine = attached()

    def broken(*args, **kwargs):
        raise OSError("no entropy")

    with monkeypatch.context() as patch:
        patch.setattr("fl_dp.privacy_engine.engine.add_gaussian_noise", broken)
        with pytest.raises(OSError, match="no entropy"):
            optimizer.step(loss=losses_of(model, x, y))
    assert engine.steps == 1
    assert engine._pending is None
    optimizer.step(loss=None)
    assert (engine.steps, engine.get_training_stats()["signal"]) == (2, 0.0)


def test_a_batch_is_in_one_step_alone():
    x, y = small_batch()
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    without_noise(model).attach(optimizer)
    optimizer.virtual_step(loss=losses_of(model, x, y))
    optimizer.step(loss=None)
    assert model[0].weight.grad.abs().sum() > 0
    optimizer.step(loss=None)
    assert model[0].weight.grad.eq(0).all()


def test_no_steps_cost_nothing_even_without_noise():
    engine = without_noise(small_model())
    assert engine.get_privacy_spent().epsilon == 0.0
    assert engine.get_privacy_spent(steps=1).epsilon == math.inf


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({}, "mixed"),
        ({"mixed": False}, "ghost"),
        ({"ghost_clipping": False}, "instantiate"),
        ({"ghost_clipping": False, "mixed": False}, "instantiate"),
    ],
)
def test_keywords_of_private_cnn_choose_the_kernels(options, mode):
    assert small_engine(small_model(), noise_multiplier=1.0, **options).chooser.mode == mode


def test_gradients_are_in_the_types_of_their_parameters():
    x, y = small_batch()
    model, optimizer, _ = attached(small_model().bfloat16())
    optimizer.step(loss=losses_of(model, x.bfloat16(), y))
    assert {p.grad.dtype for p in model.parameters()} == {torch.bfloat16}


def test_a_batch_whose_rounding_is_not_paid_for_is_refused():
    with pytest.raises(ConfigError, match="batch_size=1048577: expected at most 1048576"):
        small_engine(small_model(), noise_multiplier=1.0, batch_size=2**20 + 1, sample_size=2**21)


@pytest.mark.parametrize(("batch_size", "sample_size"), [(0, 10), (11, 10), (-1, 10)])
def test_a_batch_larger_than_the_data_or_empty_is_refused(batch_size, sample_size):
    with pytest.raises(ConfigError, match=f"batch_size={batch_size} <= sample_size={sample_size}"):
        small_engine(small_model(), noise_multiplier=1.0, batch_size=batch_size, sample_size=sample_size)
    assert small_engine(small_model(), noise_multiplier=1.0, batch_size=1, sample_size=1).sample_rate == 1.0


def test_no_noise_warns_and_its_epsilon_is_infinite():
    model, (x, y) = small_model(), small_batch()
    with pytest.warns(UserWarning, match="nothing is protected"):
        engine = small_engine(model, noise_multiplier=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine.attach(optimizer)
    optimizer.step(loss=losses_of(model, x, y))
    assert engine.get_privacy_spent().epsilon == math.inf


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"clipping": "automatic"}, {"clipping": "automatic"}),
        ({"clipping": Psac(r=0.3)}, {"clipping": Psac(r=0.3)}),
        ({"clipping": clip_function("global", Z=2.0)}, {"clipping": clip_function("global", Z=2.0)}),
        ({"clipping_style": "layer-wise"}, {"max_grad_norm": split_bound(0.1, ["0", "2"])}),
        (
            {"clipping_style": "param-wise", "clipping": "automatic"},
            {
                "max_grad_norm": split_bound(0.1, ["0.weight", "0.bias", "2.weight", "2.bias"]),
                "clipping": "automatic",
            },
        ),
        ({"max_grad_norm": {"": 0.3, "0.weight": 0.4}}, {"max_grad_norm": {"": 0.3, "0.weight": 0.4}}),
    ],
    ids=str,
)
def test_functions_and_styles_of_clipping_are_those_of_the_plain_functions(options, expected):
    x, y = small_batch()
    seeded, generator = (torch.Generator().manual_seed(4) for _ in range(2))
    model, optimizer, engine = attached(**options, generator=seeded)
    twin = small_model()
    clipped = clipped_grad_sum(
        losses_of(twin, x, y), dict(twin.named_parameters()), **{"max_grad_norm": 0.1, **expected}
    )
    assert engine.sensitivity == clipped.sensitivity
    noisy = add_gaussian_noise(clipped, noise_multiplier=1.0, generator=generator)
    optimizer.step(loss=losses_of(model, x, y))
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, noisy[name] / 10)


def _with_optimizer():
    model = small_model()
    return model, torch.optim.Adam(model.parameters(), lr=0.01), *small_batch()


def test_the_first_snippet_of_private_cnn_runs_as_it_stands():
    model, optimizer, x, y = _with_optimizer()
    # fmt: off
    engine = PrivacyEngine(model, batch_size=256, sample_size=50000, epochs=3, max_grad_norm=0.1, target_epsilon=3, ghost_clipping=True, mixed=True)  # noqa: E501
    engine.attach(optimizer)
    loss = F.cross_entropy(model(x), y, reduction="none")
    optimizer.step(loss=loss)                 # no loss.backward()
    # fmt: on
    assert engine.steps == 1


def test_the_second_snippet_of_private_cnn_runs_as_it_stands():
    model, optimizer, x, y = _with_optimizer()
    engine = small_engine(model, noise_multiplier=1.0)
    engine.attach(optimizer)
    for i in range(4):
        loss = F.cross_entropy(model(x), y, reduction="none")
        if i % 2 == 0:
            # fmt: off
            optimizer.virtual_step(loss=loss)         # accumulate; the step after it adds noise once
            # fmt: on
        else:
            optimizer.step(loss=loss)
    assert engine.steps == 2


@pytest.mark.parametrize("first", ["train", "eval"])
def test_the_model_is_checked_again_in_another_mode(first):
    """In evaluation mode batch norm leaves examples alone, in training mode it mixes them."""
    x, y = small_batch()
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)).train(first == "train")
    model, optimizer, engine = attached(model)
    if first == "eval":
        optimizer.step(loss=losses_of(model, x, y))
        model.train()
    with pytest.raises(ProbeError):
        optimizer.step(loss=losses_of(model, x, y))
    losses = losses_of(model, x, y)
    model.eval()
    with pytest.raises(ConfigError, match="between its call and the step"):
        optimizer.step(loss=losses)
    optimizer.step(loss=losses_of(model, x, y))
    assert engine.steps == (2 if first == "eval" else 1)


def test_evaluation_between_steps_needs_no_check():
    x, y = small_batch()
    model, optimizer, engine = attached()
    optimizer.step(loss=losses_of(model, x, y))
    model.eval()
    with torch.no_grad():
        model(x)
    model.train()
    optimizer.step(loss=losses_of(model, x, y))
    assert len(engine._check._axes) == 1


def test_an_evaluation_between_call_and_step_changes_nothing():
    """Only calls that gradients can come from say in which mode the losses were made."""
    x, y = small_batch()
    model, optimizer, engine = attached()
    losses = losses_of(model, x, y)
    model.eval()
    with torch.no_grad():
        model(x)
    model.train()
    optimizer.step(loss=losses)
    assert engine.steps == 1
    assert set(engine._check._axes) == {(True,) * 4}


def test_a_model_that_was_checked_is_not_checked_again(monkeypatch):
    x, y = small_batch()
    model, optimizer, engine = attached()
    optimizer.step(loss=losses_of(model, x, y))
    monkeypatch.setattr(
        "fl_dp.privacy_engine.model_check.probe", lambda *_, **__: pytest.fail("checked again")
    )
    optimizer.step(loss=losses_of(model, x, y))
    assert engine._check._inputs is None  # nor is a batch kept


@ASSUMED
def test_code_written_for_private_cnn_runs():
    model, (x, y) = small_model(), small_batch()
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
    x, y = small_batch()
    seeded, its_seeded = torch.Generator(), torch.Generator()
    model, optimizer, engine = attached(lr=1.0, generator=seeded)
    before = model[0].weight.detach().clone()
    optimizer.step(loss=None)
    noise = (before - model[0].weight.detach()) * 10
    assert engine.steps == 1
    assert 0.05 < float(noise.std()) < 0.2  # noise_multiplier * max_grad_norm = 0.1
    twin, twin_optimizer, _ = attached(lr=1.0, generator=its_seeded)
    for each, generator in ((model, seeded), (twin, its_seeded)):
        each.load_state_dict(small_model().state_dict())
        generator.manual_seed(3)
    optimizer.virtual_step(loss=losses_of(model, x, y))
    optimizer.step(loss=None)
    twin_optimizer.step(loss=losses_of(twin, x, y))
    assert torch.equal(model[0].weight, twin[0].weight)


def test_the_loop_of_the_sampler_counts_every_step():
    model, optimizer, engine = attached()
    data = TensorDataset(*small_batch(40))
    sampler = PoissonSampler(40, expected_batch_size=2, physical_batch_size=2, steps=12)
    for batches in sampler.logical_batches(DataLoader(data, batch_sampler=sampler)):
        for x, y in batches:
            optimizer.virtual_step(loss=losses_of(model, x, y))
        optimizer.step(loss=None)
    assert engine.steps == 12


def test_a_locked_engine_refuses_steps_until_it_is_unlocked():
    x, y = small_batch()
    model, optimizer, engine = attached()
    engine.lock()
    for step, loss in (
        (optimizer.step, losses_of(model, x, y)),
        (optimizer.virtual_step, losses_of(model, x, y)),
        (optimizer.step, None),
    ):
        with pytest.raises(ConfigError, match="unlock"):
            step(loss=loss)
    assert engine.steps == 0
    engine.unlock()
    optimizer.step(loss=losses_of(model, x, y))
    assert engine.steps == 1


def test_a_model_that_mixes_examples_is_refused_at_the_first_step():
    model = nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3, affine=False, track_running_stats=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    small_engine(model, noise_multiplier=1.0).attach(optimizer)
    x, y = small_batch()
    with pytest.raises(ProbeError):
        optimizer.step(loss=losses_of(model, x, y))
