"""Hooks of an engine are none of a copied or saved model."""

import copy
import subprocess
import sys

import pytest
import torch
from attached import attached, losses_of, small_batch, small_engine, small_model
from torch import nn

from fl_dp import PoissonSampler
from fl_dp.errors import ConfigError

X, Y = small_batch()


def test_a_saved_or_copied_model_holds_no_records_and_loads_without_fl_dp(tmp_path):
    """After an evaluation with gradients, in a mode that was never checked, and a pass without a step."""
    marked = torch.full((4000, 6), 7.25)
    model, optimizer, engine = attached(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)))
    optimizer.step(loss=losses_of(model, X, Y))
    model(marked)
    model.eval()
    model(marked)
    torch.save(model, tmp_path / "model.pt")
    content = (tmp_path / "model.pt").read_bytes()
    assert marked[:2].numpy().tobytes() not in content
    assert len(content) < 50_000
    assert not copy.deepcopy(model)[0]._forward_hooks
    script = (
        "import sys, torch; sys.modules['fl_dp'] = None\n"
        f"model = torch.load({str(tmp_path / 'model.pt')!r}, weights_only=False)\n"
        "print(tuple(model(torch.ones(2, 6)).shape))"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert found.stdout.strip() == "(2, 3)", found.stderr
    copied = copy.deepcopy(model)
    copied(X)
    assert engine._check.watch._before is not None, "the copy's calls are not the model's"


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:FutureWarning")
def test_a_model_that_takes_no_hooks_is_refused_and_nothing_stays():
    scripted = torch.jit.script(small_model())
    optimizer = torch.optim.SGD(scripted.parameters(), lr=0.1)
    before = set(vars(optimizer))
    engine = small_engine(scripted, noise_multiplier=1.0)
    with pytest.raises(ConfigError, match=r"takes no hooks.*before torch.jit.script"):
        engine.attach(optimizer)
    assert set(vars(optimizer)) == before
    assert not optimizer._optimizer_step_pre_hooks
    second = small_engine(scripted, noise_multiplier=1.0)
    with pytest.raises(ConfigError, match="takes no hooks"):  # and no other engine is in the way
        second.attach(optimizer)


def test_a_sampler_of_another_engine_stays_its_own_when_a_second_is_refused():
    """Else both would take steps of the same secret draws."""
    sampler = PoissonSampler(1000, expected_batch_size=10, physical_batch_size=4)
    model = small_model()
    first, optimizer = small_engine(model, noise_multiplier=1.0), torch.optim.SGD(model.parameters(), lr=0.1)
    first.attach(optimizer, sampler=sampler)
    other = small_model()
    second = small_engine(other, noise_multiplier=1.0)
    for _ in range(2):
        with pytest.raises(ConfigError, match="Another engine is attached"):
            second.attach(torch.optim.SGD(other.parameters(), lr=0.1), sampler=sampler)
    first.detach()
    second.attach(torch.optim.SGD(other.parameters(), lr=0.1), sampler=sampler)
