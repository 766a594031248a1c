"""Steps are counted, and how many of them were seen."""

from fl_dp import PoissonSampler
from fl_dp.privacy_engine.steps import Steps


def test_only_steps_that_were_all_seen_are_seen():
    """By a sampler whose draws are everyone."""
    steps = Steps(10, 1.0)
    sampler = PoissonSampler(10, expected_batch_size=10, physical_batch_size=10, steps=5)
    steps.watch(sampler)
    assert steps.sampling == "seen"
    loop = sampler.logical_batches(sampler)
    for _ in range(2):
        list(next(loop))
        steps.take(10)
    assert (steps.taken, steps.sampling) == (2, "seen")
    steps.leave()
    assert steps.sampling == "seen"
    steps.take(10)
    assert (steps.taken, steps.sampling) == (3, "assumed")
