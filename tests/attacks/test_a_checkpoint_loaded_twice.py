"""One checkpoint, loaded twice: two models whose noise would be the same.

The attacker sees two models that go on from one checkpoint, and knows every record but one. If the checkpoint
held the noise's state, both would add the same numbers, and the models' difference would be what the record
contributes, bare. If it held the sampler's, both would draw the same records. So it holds neither.
"""

import copy
import pickle

import pytest
import torch
from attached import attached, losses_of, small_batch, small_model

from fl_dp import PoissonSampler
from fl_dp.errors import ConfigError

NOISE = 100.0  # times C: a single record is far below it


def _begun(tmp_path):
    """A checkpoint after one step."""
    model, optimizer, engine = attached(noise_multiplier=NOISE)
    optimizer.step(loss=losses_of(model, *small_batch()))
    torch.save(engine.state_dict(), tmp_path / "engine.pt")


def _continued(tmp_path, records):
    """The gradient that another process publishes, from the checkpoint on, over `records`."""
    model, optimizer, engine = attached(small_model(), noise_multiplier=NOISE)
    engine.load_state_dict(torch.load(tmp_path / "engine.pt"))
    x, y = small_batch()
    optimizer.step(loss=losses_of(model, x[records], y[records]))
    return torch.cat([p.grad.flatten() for p in model.parameters()]) * 10


def test_the_difference_of_two_continuations_is_still_noise(tmp_path):
    _begun(tmp_path)
    with_it = _continued(tmp_path, range(12))
    without = _continued(tmp_path, range(1, 12))
    deviation = 2**0.5 * NOISE * 0.1
    assert 0.6 < float((with_it - without).std()) / deviation < 1.5


def test_two_continuations_share_no_draw():
    def sampler():
        return PoissonSampler(400, expected_batch_size=200, physical_batch_size=400, steps=9)

    begun, drawn = sampler(), []
    loop = begun.logical_batches(begun)
    list(next(loop))
    next(loop)
    state = begun.state_dict()
    for _ in range(2):
        resumed = sampler()
        resumed.load_state_dict(state)
        drawn.append([list(batches) for batches in resumed.logical_batches(resumed)])
    assert [len(steps) for steps in drawn] == [8, 8]
    assert all(one != other for one, other in zip(*drawn, strict=True))


def test_a_checkpoint_holds_no_data_without_noise_and_no_state_of_a_generator():
    """The sum of half a logical batch is raw, and the rest of its draw could not be drawn anew."""
    x, y = small_batch()
    model, optimizer, engine = attached()
    assert not [part for part in engine.state_dict().values() if isinstance(part, torch.Tensor)]
    optimizer.virtual_step(loss=losses_of(model, x, y))
    with pytest.raises(ConfigError, match="middle of a logical batch"):
        engine.state_dict()


def test_a_copy_would_have_the_same_noise_or_draws_and_is_refused():
    _, _, engine = attached()
    sampler = PoissonSampler(40, expected_batch_size=10, physical_batch_size=3)
    for held in (engine, sampler):
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(ConfigError, match="copy"):
                copied(held)


def test_processes_that_were_forked_have_draws_of_their_own_once_they_load():
    """A fork copies the sampler's generator, too: here by hand. The engine's noise has no state."""
    samplers = [PoissonSampler(400, expected_batch_size=200, physical_batch_size=400) for _ in range(2)]
    samplers[1]._generator.set_state(samplers[0]._generator.get_state())
    state = samplers[0].state_dict()
    for sampler in samplers:
        sampler.load_state_dict(state)
    assert list(next(samplers[0].logical_batches(samplers[0]))) != list(
        next(samplers[1].logical_batches(samplers[1]))
    )


def test_a_generator_that_begins_again_is_refused():
    """A script that seeds its generator, killed and started again, would repeat its first numbers."""
    held = attached(generator=torch.Generator().manual_seed(0))[2]
    with pytest.raises(ConfigError, match="generator"):
        held.load_state_dict(held.state_dict())
