"""The familiar surface gives the same private step as the plain functions, and counts it."""

import math

import pytest
import torch
from attached import attached, losses_of, small_batch, small_engine, small_model
from torch import nn

from fl_dp import add_gaussian_noise, clipped_grad_sum
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.engine.clip_functions import Automatic, clip_function
from fl_dp.errors import ConfigError, ProbeError
from fl_dp.records import Entry

ASSUMED = pytest.mark.filterwarnings("ignore::fl_dp.errors.AssumedSamplingWarning")


@pytest.mark.parametrize(
    ("options", "mode"),
    [({}, "mixed"), ({"mixed": False}, "ghost"), ({"ghost_clipping": False, "mixed": False}, "instantiate")],
)
def test_keywords_of_private_cnn_choose_the_kernels(options, mode):
    assert small_engine(small_model(), noise_multiplier=1.0, **options).chooser.mode == mode


@ASSUMED
@pytest.mark.parametrize("accountant", ["pld", "rdp"])
@pytest.mark.parametrize("delta", [{}, {"target_delta": 1e-7}])
def test_the_price_is_that_of_the_mechanism_whose_steps_were_taken(accountant, delta):
    _, optimizer, engine = attached(noise_multiplier=0.8, accountant=accountant, batch_size=20, **delta)
    assert engine.sample_rate == 20 / 1000
    assert engine.target_delta == delta.get("target_delta", 1e-5)
    for _ in range(3):
        optimizer.step(loss=None)
    for steps, asked in ((3, {}), (40, {"steps": 40}), (0, {"steps": 0})):
        entries = [Entry(20 / 1000, 0.8, steps)] if steps else []
        expected = compute_epsilon(entries, engine.target_delta, accountant)
        spent = engine.get_privacy_spent(**asked)
        assert (spent.epsilon, spent.delta, spent.steps) == (expected, engine.target_delta, steps)
        assert spent.sampling == "assumed"
    assert expected == 0.0


def test_a_step_counts_even_if_its_noise_fails_and_its_batch_is_gone(monkeypatch):
    """Part of the noise may have been drawn: the step is paid, and its records are in no later step."""
    x, y = small_batch()
    model, optimizer, engine = attached()

    def broken(*args, **kwargs):
        raise OSError("no entropy")

    with monkeypatch.context() as patch:
        patch.setattr("fl_dp.training.step.add_gaussian_noise", broken)
        with pytest.raises(OSError, match="no entropy"):
            optimizer.step(loss=losses_of(model, x, y))
    assert engine.steps == 1
    assert engine._pending is None
    optimizer.step(loss=None)
    assert (engine.steps, engine.get_training_stats()["signal"]) == (2, 0.0)


def test_gradients_are_in_the_types_of_their_parameters():
    x, y = small_batch()
    model, optimizer, _ = attached(small_model().bfloat16())
    optimizer.step(loss=losses_of(model, x.bfloat16(), y))
    assert {p.grad.dtype for p in model.parameters()} == {torch.bfloat16}


def test_no_noise_warns_and_its_epsilon_is_infinite():
    with pytest.warns(UserWarning, match="nothing is protected"):
        engine = small_engine(small_model(), noise_multiplier=0)
    assert engine.get_privacy_spent().epsilon == 0.0
    assert engine.get_privacy_spent(steps=1).epsilon == math.inf


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {}),
        ({"mixed": False}, {}),
        ({"ghost_clipping": False}, {}),
        ({"clipping": "automatic"}, {"clipping": "automatic"}),
        ({"clipping": Automatic(gamma=0.3)}, {"clipping": clip_function("automatic", gamma=0.3)}),
        ({"max_grad_norm": {"": 0.3, "0.weight": 0.4}}, {"max_grad_norm": {"": 0.3, "0.weight": 0.4}}),
    ],
    ids=str,
)
def test_a_step_with_any_kernels_functions_and_styles_of_clipping_is_that_of_the_plain_functions(
    options, expected
):
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
    for name, start in twin.named_parameters():
        torch.testing.assert_close(model.get_parameter(name), start - 0.1 * noisy[name] / 10)


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
    model.eval()
    optimizer.step(loss=losses_of(model, x, y))
    assert engine.steps == (2 if first == "eval" else 1)


def test_a_mode_that_is_switched_between_call_and_step_before_it_was_checked_is_refused():
    model, optimizer, engine = attached()
    losses = losses_of(model, *small_batch())
    model.eval()
    with pytest.raises(ConfigError, match="between its call and the step"):
        optimizer.step(loss=losses)
    optimizer.step(loss=losses_of(model, *small_batch()))
    assert engine.steps == 1


def test_evaluation_between_steps_needs_no_check_and_between_call_and_step_changes_nothing(monkeypatch):
    """Only calls that gradients can come from say in which mode the losses were made."""
    x, y = small_batch()
    model, optimizer, engine = attached()
    optimizer.step(loss=losses_of(model, x, y))
    monkeypatch.setattr(
        "fl_dp.privacy_engine.model_check.probed", lambda *_, **__: pytest.fail("checked again")
    )
    for made_before in (False, True):
        losses = losses_of(model, x, y) if made_before else None
        model.eval()
        with torch.no_grad():
            model(x)
        model.train()
        optimizer.step(loss=losses if made_before else losses_of(model, x, y))
    assert engine.steps == 3
    assert not any(part.any() for part in engine._check.watch.inputs[0])  # nor is a batch kept
    assert engine._check.watch._to_repeat is None


def test_a_locked_engine_refuses_steps_until_it_is_unlocked():
    model, optimizer, engine = attached()
    losses = losses_of(model, *small_batch())
    engine.lock()
    for step, loss in ((optimizer.step, losses), (optimizer.virtual_step, losses), (optimizer.step, None)):
        with pytest.raises(ConfigError, match="unlock"):
            step(loss=loss)
    assert engine.steps == 0
    engine.unlock()
    optimizer.step(loss=losses)
    assert engine.steps == 1


def test_attaching_and_a_step_ask_whether_the_device_rounds_as_was_proven(monkeypatch):
    """The model may have moved to a GPU in between."""
    asked = []
    for module in ("engine", "private_step"):
        monkeypatch.setattr(f"fl_dp.privacy_engine.{module}.check_overrides", asked.append)
    model, optimizer, _ = attached(noise_multiplier=1.0)
    assert asked == [torch.device("cpu")]
    optimizer.step(loss=losses_of(model, *small_batch()))
    assert asked == [torch.device("cpu")] * 2
