"""Steps are counted, and how many of them were seen."""

import pytest

from fl_dp import PoissonSampler
from fl_dp.errors import ConfigError
from fl_dp.privacy_engine.steps import Steps


def _watched():
    """Steps that watch a sampler whose draws are everyone, and the sampler's loop."""
    steps = Steps(10, 1.0)
    sampler = PoissonSampler(10, expected_batch_size=10, physical_batch_size=10, steps=5)
    steps.watch(sampler)
    return steps, sampler.logical_batches(sampler)


def test_only_steps_that_were_all_seen_are_seen():
    steps, loop = _watched()
    assert steps.sampling == "seen"
    for _ in range(2):
        list(next(loop))
        steps.take(10)
    assert (steps.taken, steps.sampling) == (2, "seen")
    steps.leave()
    assert steps.sampling == "seen"
    steps.take(10)
    assert (steps.taken, steps.sampling) == (3, "assumed")


def test_without_a_sampler_nothing_is_seen_and_nothing_refused():
    steps = Steps(10, 0.5)
    assert steps.sampling == "assumed"
    steps.check_drawn()
    steps.take(3)
    assert (steps.taken, steps.sampling) == (1, "assumed")


def test_a_step_that_does_not_fit_is_not_counted():
    steps, loop = _watched()
    with pytest.raises(ConfigError, match="without a draw"):
        steps.take(10)
    list(next(loop))
    for examples in (0, 9, 11):
        with pytest.raises(ConfigError, match="than the records"):
            steps.take(examples)
    assert steps.taken == 0
    steps.take(10)
    assert steps.taken == 1


def test_what_was_unseen_is_kept_in_the_state():
    unseen, seen = Steps(10, 0.5), _watched()[0]
    unseen.take(1)
    seen.load_state_dict(unseen.state_dict())
    assert (seen.taken, seen.sampling) == (1, "assumed")
