"""The engine makes the losses itself, and looks at them when nobody can foresee it."""

import importlib
import random

import pytest
import torch
from attached import attached, losses_of, small_batch, small_engine, small_model
from torch import nn

from fl_dp.errors import ConfigError
from fl_dp.privacy_engine.checks import CheckedLosses

BATCH = (torch.arange(6.0),)


@pytest.fixture
def searches(monkeypatch):
    """Whether each search that was made was a thorough one."""
    made = []
    monkeypatch.setattr(
        "fl_dp.engine.tracing.mixing.find_mixing",
        lambda losses_of, *batch, thorough=False: made.append(thorough),
    )
    return made


def test_the_first_batch_is_searched_thoroughly_and_later_one_in_every(searches):
    losses = CheckedLosses(lambda x: x * 2, every=5)
    assert torch.equal(losses(*BATCH), BATCH[0] * 2)
    assert searches == [True]
    for _ in range(2000):
        losses(*BATCH)
    assert set(searches[1:]) == {False}
    assert 300 < len(searches) < 500  # 400 expected, deviation 18


def test_nothing_in_the_losses_tells_when_they_are_searched(searches):
    """A seed of torch or of Python decides nothing."""
    when = []
    for _ in range(2):
        torch.manual_seed(0)
        random.seed(0)
        losses, counts = CheckedLosses(lambda x: x * 2, every=2), []
        searches.clear()
        for _ in range(100):
            losses(*BATCH)
            counts.append(len(searches))
        when.append(counts)
    assert when[0] != when[1]


def test_a_first_batch_in_which_mixing_cannot_show_leaves_the_thorough_search_to_the_next(searches):
    losses = CheckedLosses(lambda x: x * 2, every=10**9)
    for size in (0, 1, 6, 6):
        losses(BATCH[0][:size])
    assert searches == [True] * 3


def test_every_batch_may_be_searched_and_none_may_not(searches):
    losses = CheckedLosses(lambda x: x * 2, every=1)
    for _ in range(4):
        losses(*BATCH)
    assert searches == [True, False, False, False]
    with pytest.raises(ConfigError, match="check_every=0"):
        small_engine(small_model(), noise_multiplier=1.0, check_every=0)


def test_the_losses_of_a_searched_batch_are_those_that_it_would_have_had():
    """Dropout included: the search leaves the random state as it was."""
    x, y = small_batch()
    sums = []
    for every in (1, 10**9):
        model = torch.nn.Sequential(*small_model(), torch.nn.Dropout(0.5))
        options = {"losses_of": lambda x, y, model=model: losses_of(model, x, y), "check_every": every}
        _, optimizer, engine = attached(model, generator=torch.Generator().manual_seed(3), **options)
        torch.manual_seed(5)
        for _ in range(3):
            optimizer.step(loss=engine.losses(x, y))
        sums.append(model[0].weight.grad)
    assert torch.equal(*sums)


def test_an_engine_without_losses_of_says_what_it_needs_and_a_locked_one_makes_none():
    _, _, engine = attached()
    with pytest.raises(ConfigError, match="losses_of"):
        engine.losses(*small_batch())
    _, _, engine = attached(losses_of=lambda x, y: x)
    engine.lock()
    with pytest.raises(ConfigError, match="unlock"):
        engine.losses(*small_batch())


def _world_of(size, monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: size)


def test_an_engine_that_was_made_before_takes_no_step_among_two_processes(monkeypatch):
    """tests/attacks/test_two_processes_that_drift_apart.py has real ones."""
    model, optimizer, engine = attached()
    losses = losses_of(model, *small_batch())
    _world_of(2, monkeypatch)
    for step, loss in ((optimizer.virtual_step, losses), (optimizer.step, None)):
        with pytest.raises(ConfigError, match="runs 2 processes"):
            step(loss=loss)
    with pytest.raises(ConfigError, match="without torchrun and init_process_group"):
        small_engine(small_model(), noise_multiplier=1.0)
    assert engine.steps == 0


def test_one_process_may_be_initialised(monkeypatch):
    _world_of(1, monkeypatch)
    model, optimizer, engine = attached()
    optimizer.step(loss=losses_of(model, *small_batch()))
    assert engine.steps == 1


@pytest.mark.parametrize("inside", [False, True])
def test_subclasses_of_wrappers_are_refused_and_wrapped_parts_of_a_model(inside):
    wrapper = type("Own", (nn.DataParallel,), {})(small_model())
    model = nn.Sequential(nn.Linear(6, 6), wrapper) if inside else wrapper
    words = f"{'1 of the model' if inside else 'The model'} is wrapped in DataParallel"
    with pytest.raises(ConfigError, match=f"{words}.* pass the model without the wrapper"):
        small_engine(model, noise_multiplier=1.0)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("torch.nn", "DataParallel"),
        ("torch.nn.parallel", "DistributedDataParallel"),
        ("torch.distributed.fsdp", "FullyShardedDataParallel"),
        ("torch.distributed.fsdp", "FSDPModule"),
    ],
)
def test_the_wrappers_of_torch_are_refused(module, name):
    """Made without their processes: their names may change with PyTorch."""
    wrapper = getattr(importlib.import_module(module), name)
    kind = type("Sharded", (wrapper, nn.Module), {}) if name == "FSDPModule" else wrapper
    model = object.__new__(kind)
    nn.Module.__init__(model)
    with pytest.raises(ConfigError, match=f"is wrapped in {name}"):
        small_engine(model, noise_multiplier=1.0)


def over_their_mean(losses):
    losses /= losses.detach().mean()


def by_class(losses):
    losses *= torch.arange(12.0)


def without_a_gradient(losses):
    with torch.no_grad():
        losses.mul_(2.0)


@pytest.mark.parametrize("change", [over_their_mean, by_class, without_a_gradient])
def test_losses_that_were_changed_in_place_are_not_the_engine_s_own(change):
    model = small_model()
    model, optimizer, engine = attached(model, losses_of=lambda x, y: losses_of(model, x, y))
    losses = engine.losses(*small_batch())
    change(losses)
    with pytest.raises(ConfigError, match=r"do not come from engine.losses\(...\), or were changed since"):
        optimizer.step(loss=losses)
    assert engine.steps == 0
    optimizer.step(loss=engine.losses(*small_batch()))


def test_losses_take_tensors_by_position_and_may_be_looked_at_in_an_evaluation():
    model = small_model()
    engine = small_engine(model, noise_multiplier=1.0, losses_of=lambda x, y: losses_of(model, x, y))
    x, y = small_batch()
    with pytest.raises(TypeError, match=r"by position, got 'x': engine.losses\(x, y\)"):
        engine.losses(x=x, y=y)
    with torch.inference_mode():
        assert engine.losses(x, y).shape == (12,)
