"""Noise that is lowered for one step, and raised again before anybody asks for epsilon.

The author of a training loop does so by a schedule, or to get one good step past a report. Of seven steps on
a tenth of the records the sixth has noise of 0.05 C, the others of 1.0. Priced by the multiplier that the
engine has when it is asked, epsilon was told as 2.57; it was 271. So nothing of an engine can be assigned.
Other noise needs another engine, which continues the count, each step priced at its own multiplier.
"""

import pytest
import torch
from attached import attached, losses_of, small_batch, small_engine, small_model

from fl_dp import PoissonSampler
from fl_dp.errors import ConfigError

ASSUMED = pytest.mark.filterwarnings("ignore::fl_dp.errors.AssumedSamplingWarning")


@ASSUMED
def test_the_report_after_five_steps_of_much_noise_and_one_of_little_is_that_of_the_little():
    engine = attached(noise_multiplier=1.0, batch_size=100)[2]
    with pytest.raises(ConfigError, match=r"engine.noise_multiplier cannot be assigned"):
        engine.noise_multiplier = 0.05
    model = small_model()
    for noise in [1.0, 1.0, 1.0, 1.0, 1.0, 0.05, 1.0]:
        _, optimizer, engine = attached(model, noise_multiplier=noise, batch_size=100)
        optimizer.step(loss=losses_of(model, *small_batch()))
        engine.detach()
    assert engine.get_privacy_spent().epsilon == pytest.approx(271.29, abs=0.01)


@pytest.mark.parametrize(
    "name",
    [
        *("noise_multiplier", "max_grad_norm", "sensitivity", "batch_size", "sample_size", "sample_rate"),
        *("target_delta", "accountant", "clipping", "parameters", "steps", "module", "record_snr"),
        *("noise_mult", "target_epsilon", "get_privacy_spent"),  # what nothing would read, and a method
    ],
)
@pytest.mark.parametrize("begun", [False, True])
def test_nothing_can_be_assigned_before_or_after_the_first_step(name, begun):
    _, optimizer, engine = attached()
    if begun:
        optimizer.step(loss=None)
    held = getattr(engine, name, None)
    with pytest.raises(ConfigError, match=f"engine.{name} cannot be assigned"):
        setattr(engine, name, 0.5)
    assert getattr(engine, name, None) == held


@pytest.mark.parametrize("name", ["noise_multiplier", "max_grad_norm", "expected_batch_size"])
def test_what_schedulers_of_opacus_assign_to_the_optimizer_is_not_ignored(name):
    model, optimizer, engine = attached()
    setattr(optimizer, name, 0.5)
    losses = losses_of(model, *small_batch())
    for step in (optimizer.step, optimizer.virtual_step):
        with pytest.raises(ConfigError, match=f"optimizer.{name} was assigned"):
            step(loss=losses)
    assert engine.steps == 0


def test_what_the_optimizer_has_of_its_own_is_no_assignment():
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.max_grad_norm = 0.5
    engine = small_engine(model, noise_multiplier=1.0)
    engine.attach(optimizer)
    optimizer.step(loss=None)
    assert engine.steps == 1


def test_bounds_of_groups_and_parameters_cannot_be_changed_in_place():
    engine = small_engine(small_model(), noise_multiplier=1.0, max_grad_norm={"0": 0.1, "2": 0.1})
    for held in (engine.max_grad_norm, engine.parameters):
        with pytest.raises(TypeError):
            held["0"] = 1e6


@pytest.mark.parametrize("name", ["noise_multiplier", "max_grad_norm"])
@pytest.mark.parametrize(
    "value", [[1.0, 2.0], torch.tensor([1.0, 2.0]), lambda step: 1.0 / (1 + step)], ids=type
)
def test_what_may_change_from_step_to_step_is_refused(name, value):
    with pytest.raises(ConfigError, match=f"{name}=.*: expected one number, .*new engine, which continues"):
        small_engine(small_model(), **{"noise_multiplier": 1.0, name: value})


@pytest.mark.parametrize("name", ["sample_rate", "num_records"])
def test_a_samplers_rate_cannot_be_assigned(name):
    """Not even for one draw: ten of 1000 records a step are paid for, and half of them all would be seen."""
    sampler = PoissonSampler(1000, expected_batch_size=10, physical_batch_size=1000)
    with pytest.raises(AttributeError):
        setattr(sampler, name, 0.5)
