"""Every engine trains, and those that bound contributions move parameters by the same clipped sum."""

import pytest
import torch

from benchmarks.models import MODELS
from benchmarks.steps import AUTOCAST, ENGINES, LEARNING_RATE, MAX_GRAD_NORM, Task, installed

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing:UserWarning")  # Opacus


def moved(engine, dtype="float32"):
    """A task after one step, and what that changed: all parameters in one tensor."""
    torch.manual_seed(0)
    spec = MODELS["tanh-cnn"]
    one = Task(spec.build(), *spec.batch_of(4, "cpu"), AUTOCAST[dtype])
    before = [p.detach().clone() for p in one.model.parameters()]
    ENGINES[engine](one)()
    after = one.model.parameters()
    return one, torch.cat([(a.detach() - b).flatten() for a, b in zip(after, before, strict=True)])


IN_PYTORCH = [engine for engine in installed() if engine != "jax-privacy"]
IN_BF16 = [engine for engine in IN_PYTORCH if engine not in ("fastdp", "private-cnn")]
PRIVATE = [engine for engine in IN_PYTORCH if not engine.startswith("sgd")]


@pytest.mark.parametrize("engine", IN_BF16)
@pytest.mark.parametrize("dtype", AUTOCAST)
def test_every_engine_takes_a_step_and_holds_no_gradient_after_it(engine, dtype):
    one, change = moved(engine, dtype)
    assert change.isfinite().all()
    assert all(p.grad is None for p in one.model.parameters())


@pytest.mark.parametrize("engine", PRIVATE)
def test_without_noise_private_engines_agree(engine, monkeypatch):
    monkeypatch.setattr("benchmarks.steps.NOISE_MULTIPLIER", 1e-9)
    _, change = moved(engine)
    assert change.norm() <= LEARNING_RATE * MAX_GRAD_NORM * 1.001
    torch.testing.assert_close(change, moved("fl-dp-instantiate")[1], rtol=1e-3, atol=1e-6)


def test_jax_moves_its_parameters_by_the_same_sum(monkeypatch):
    pytest.importorskip("jax_privacy")
    from benchmarks.jax_step import jax_step

    monkeypatch.setattr("benchmarks.steps.NOISE_MULTIPLIER", 1e-9)
    one, expected = moved("vmap")
    torch.manual_seed(0)
    model = MODELS["tanh-cnn"].build()
    step, parameters = jax_step(
        model, one.inputs, one.targets, max_grad_norm=1.0, noise_multiplier=1e-9, learning_rate=0.01
    )
    before = [p.detach().clone() for p in model.parameters()]
    step()
    pairs = zip(parameters(), before, strict=True)
    change = torch.cat([(torch.tensor(after.__array__()) - b).flatten() for after, b in pairs])
    torch.testing.assert_close(change, expected, rtol=1e-3, atol=1e-6)
