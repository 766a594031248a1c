"""What trains in several processes without ranks=, or in a wrapper, is refused."""

import importlib

import pytest
import torch
from attached import attached, losses_of, small_batch, small_engine, small_model
from torch import nn

from fl_dp.errors import ConfigError


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
    words = f"{'1 of the model' if inside else 'The model'} is in DataParallel"
    with pytest.raises(ConfigError, match=f"{words}.* give it the model without the wrapper"):
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
    with pytest.raises(ConfigError, match=f"is in {name}"):
        small_engine(model, noise_multiplier=1.0)
