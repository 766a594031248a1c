"""Steps are counted, and with them what nobody saw."""

from attached import small_model

from fl_dp import PoissonSampler
from fl_dp.privacy_engine.spent import DRAWS, LOSSES
from fl_dp.privacy_engine.steps import Steps


def test_only_steps_that_were_all_seen_are_seen():
    """By a sampler whose draws are everyone."""
    steps, model, holder = Steps(10, 1.0, 1.0), small_model(), small_model()
    sampler = PoissonSampler(10, expected_batch_size=10, physical_batch_size=10, steps=5)
    steps.begin(holder, model, model.parameters(), are_public=False)
    steps.watch(sampler)
    loop = sampler.logical_batches(sampler)
    for _ in range(2):
        list(next(loop))
        steps.take(10, set())
    assert (steps.taken, steps.unseen(2, set())) == (2, {})
    steps.leave()
    assert steps.unseen(2, {LOSSES}) == {}
    assert steps.unseen(7, {LOSSES}) == {DRAWS: 7, LOSSES: 7}, "of steps to come"
    steps.take(10, {LOSSES})
    assert (steps.taken, steps.unseen(3, set())) == (3, {DRAWS: 1, LOSSES: 1})
