"""Steps that are priced as Poisson draws, and are none.

Epsilon counts on secret draws: each record enters each step with probability q, alone. Who knows that batches
come from a shuffled pass, that empty draws were skipped, that two steps were taken on one draw, or that a
draw was cut, knows more than was paid for. Such a training loop looks like any other. So a sampler that is
attached counts draws beside the engine's steps. Without one, every epsilon says that Poisson sampling is
assumed.
"""

import warnings

import pytest
import torch
from attached import attached, losses_of, small_batch, small_engine, small_model, without_noise
from torch.utils.data import DataLoader, TensorDataset

from fl_dp import PoissonSampler
from fl_dp.errors import AssumedSamplingWarning, ConfigError

X, Y = small_batch(40)


def _seen(expected=10, steps=6, physical=3):
    """Model, optimizer, engine and the loop of a sampler that the engine sees."""
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine = small_engine(model, noise_multiplier=1.0, sample_size=40, batch_size=expected)
    sampler = PoissonSampler(40, expected_batch_size=expected, physical_batch_size=physical, steps=steps)
    engine.attach(optimizer, sampler=sampler)
    loader = DataLoader(TensorDataset(X, Y), batch_sampler=sampler)
    return model, optimizer, engine, sampler.logical_batches(loader)


def test_a_shuffled_pass_gets_an_epsilon_that_says_it_is_assumed():
    model, optimizer, engine = attached(sample_size=40)
    for x, y in DataLoader(TensorDataset(X, Y), batch_size=10, shuffle=True):
        optimizer.step(loss=losses_of(model, x, y))
    with pytest.warns(AssumedSamplingWarning, match="attach\\(optimizer, sampler=sampler\\)") as told:
        spent = optimizer.get_privacy_spent()
    assert told[0].filename == __file__
    assert spent.sampling == "assumed"
    assert "ASSUMED" in str(spent)
    assert "ASSUMED" in repr(spent)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it has been said; what is returned goes on saying it
        assert engine.get_privacy_spent().sampling == "assumed"


def test_the_loop_of_the_docs_is_seen_step_by_step():
    model, optimizer, engine, loop = _seen(expected=1, steps=30)
    sizes = []
    for batches in loop:
        taken = 0
        for x, y in batches:
            optimizer.virtual_step(loss=losses_of(model, x, y))
            taken += len(x)
        optimizer.step(loss=None)
        sizes.append(taken)
    assert 0 in sizes  # empty draws are steps, too
    assert engine.steps == 30
    spent = engine.get_privacy_spent()
    assert spent.sampling == "seen"
    assert "Poisson draw" not in str(spent)  # what is assumed still, is something else


def test_two_steps_on_one_draw_and_a_step_without_a_draw_are_refused():
    model, optimizer, engine, loop = _seen()
    with pytest.raises(ConfigError, match="without a draw"):
        optimizer.step(loss=None)
    with pytest.raises(ConfigError, match="without a draw"):
        optimizer.virtual_step(loss=losses_of(model, X, Y))
    for x, y in next(loop):
        optimizer.virtual_step(loss=losses_of(model, x, y))
    optimizer.step(loss=None)
    with pytest.raises(ConfigError, match="second step on the same draw"):
        optimizer.step(loss=None)
    with pytest.raises(ConfigError, match="second step on the same draw"):
        optimizer.step(loss=losses_of(model, X[:3], Y[:3]))
    assert engine.steps == 1


def test_an_empty_draw_that_is_skipped_is_refused():
    model, optimizer, engine, loop = _seen(expected=1, steps=200)

    def skipping():
        for batches in loop:
            held = list(batches)
            if not held:
                continue
            for x, y in held:
                optimizer.virtual_step(loss=losses_of(model, x, y))
            optimizer.step(loss=None)

    with pytest.raises(ConfigError, match="left without a step"):
        skipping()
    assert engine.steps < 200


def test_a_draw_that_is_cut_is_refused():
    """At most three of its records: then one more record pushes another one out."""
    model, optimizer, engine, loop = _seen(expected=40)  # every draw is everyone
    x, y = next(next(loop))
    with pytest.raises(ConfigError, match="before all physical batches"):
        optimizer.step(loss=losses_of(model, x, y))
    assert engine.steps == 0


@pytest.mark.parametrize(("repeats", "words"), [(2, "more"), (0, "fewer")])
def test_losses_that_are_more_or_fewer_than_the_records_are_refused(repeats, words):
    """Two views of each record, each with a loss and a clipping of its own, would be two records."""
    model, optimizer, engine, loop = _seen(expected=40, physical=40)
    for x, y in next(loop):
        if repeats:
            optimizer.virtual_step(loss=losses_of(model, x.repeat(repeats, 1), y.repeat(repeats)))
    with pytest.raises(ConfigError, match=f"{words} than the records"):
        optimizer.step(loss=None)
    assert engine.steps == 0


def test_two_engines_on_one_sampler_would_share_its_draws():
    _, _, engine, loop = _seen()
    sampler = engine._steps._sampler
    with pytest.raises(ConfigError, match="sampler of its own"):
        attached(sample_size=40)[2]._steps.watch(sampler)
    engine.detach()
    next(loop)
    with pytest.raises(ConfigError, match="has begun"):
        attached(sample_size=40)[2]._steps.watch(sampler)


def test_what_was_not_seen_stays_assumed_in_a_checkpoint_too():
    model, optimizer, engine = attached(small_model(), sample_size=40)
    optimizer.step(loss=losses_of(model, X, Y))
    engine.detach()
    sampler = PoissonSampler(40, expected_batch_size=10, physical_batch_size=40)
    engine.attach(optimizer, sampler=sampler)
    for batches in sampler.logical_batches(DataLoader(TensorDataset(X, Y), batch_sampler=sampler)):
        for x, y in batches:
            optimizer.virtual_step(loss=losses_of(model, x, y))
        optimizer.step(loss=None)
    resumed = small_engine(small_model(), noise_multiplier=1.0, sample_size=40)
    resumed.attach(torch.optim.SGD(resumed.module.parameters()), sampler=_other())
    resumed.load_state_dict(engine.state_dict())
    for each in (engine, resumed):
        with pytest.warns(AssumedSamplingWarning):
            assert each.get_privacy_spent().sampling == "assumed"


def _other():
    return PoissonSampler(40, expected_batch_size=10, physical_batch_size=40)


def test_a_sampler_of_another_number_of_records_is_refused():
    engine = small_engine(small_model(), noise_multiplier=1.0, sample_size=80, batch_size=20)
    with pytest.raises(ConfigError, match=r"from 40 records.*sample_size=80"):
        engine.attach(torch.optim.SGD(engine.module.parameters()), sampler=_other())


def test_no_steps_and_no_noise_are_said_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "NOTHING WAS PRIVATE" in str(
            small_engine(small_model(), noise_multiplier=1.0).get_privacy_spent()
        )
        without_noise(small_model()).get_privacy_spent(steps=3)
