"""What is printed with an epsilon: what makes it misleading, what it assumes, and what to do about each."""

import json
import math
from dataclasses import asdict

import pytest
import torch
from attached import attached, losses_of, small_batch, small_engine, small_model
from torch.utils.data import DataLoader, TensorDataset

from fl_dp import PoissonSampler
from fl_dp.accounting.epsilon import in_digits
from fl_dp.privacy_engine.spent import _TOLD, PrivacySpent, assumed

pytestmark = pytest.mark.filterwarnings("ignore::fl_dp.errors.AssumedSamplingWarning")


def trained(steps=2, **options):
    """An engine with `losses_of` and a sampler, after some steps."""
    model, x, y = small_model(), *small_batch(40)
    draws = {"generator": options.pop("draws")} if "draws" in options else {}
    given = {"noise_multiplier": 1.0, "losses_of": lambda x, y: losses_of(model, x, y), **options}
    engine = small_engine(model, sample_size=40, **given)
    sampler = PoissonSampler(40, expected_batch_size=10, physical_batch_size=40, steps=steps, **draws)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine.attach(optimizer, sampler=sampler)
    for batches in sampler.logical_batches(DataLoader(TensorDataset(x, y), batch_sampler=sampler)):
        for batch in batches:
            optimizer.virtual_step(loss=engine.losses(*batch))
        optimizer.step(loss=None)
    return engine


def names(engine):
    return [one.name for one in engine.get_privacy_spent().assumed]


def test_only_if_all_was_seen_it_says_that_all_was_checked():
    spent = trained().get_privacy_spent()
    assert (spent.assumed, spent.wrong, spent.steps) == ((), (), 2)
    assert str(spent) == (
        f"epsilon {in_digits(spent.epsilon, 6)} at delta 1e-05 after 2 steps, assuming steady rows (a "
        "record's gradient has the same bits whatever is computed beside it), of this engine alone: other "
        "trainings on these records add up. All that can be seen was checked: "
        "Poisson draws, each example's own loss, noise."
    )


def test_a_generator_of_the_users_is_told_for_draws_and_for_noise():
    known = {"generator": torch.Generator().manual_seed(0)}
    assert names(trained(**known)) == ["noise generator"]
    assert names(trained(draws=torch.Generator().manual_seed(0))) == ["draw generator"]
    told = str(trained(**known).get_privacy_spent())
    assert (
        "nobody knows the generator that made the noise of 2 steps (leave out PrivacyEngine(generator" in told
    )


def test_epsilon_is_in_no_form_without_what_it_assumes():
    model, optimizer, engine = attached()
    optimizer.step(loss=losses_of(model, *small_batch()))
    spent = engine.get_privacy_spent()
    for text in (str(spent), repr(spent), json.dumps(asdict(spent))):
        assert "Poisson draw" in text
        assert "losses_of" in text
    assert "All that can be seen" not in str(spent)


def test_every_assumption_has_words_and_something_to_do():
    for one in assumed(dict.fromkeys(_TOLD, 3)):
        assert one.told
        assert one.instead
        assert "{" not in str(one)
    assert "1 step (" in str(assumed({"draws": 1})[0])


def test_an_engine_that_was_never_attached_says_so_before_any_number():
    told = str(small_engine(small_model(), noise_multiplier=1.0).get_privacy_spent())
    assert told.startswith("NOTHING WAS PRIVATE: this engine was never attached. Call attach(optimizer)")
    assert not any(digit in told.partition("epsilon")[0] for digit in "0123456789")


def test_steps_of_an_optimizer_without_an_engine_cost_everything_and_are_said_first():
    model, (x, y) = small_model(), small_batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine = small_engine(model, noise_multiplier=1.0)
    optimizer.step()  # moves nothing: there is no gradient
    assert engine.get_privacy_spent().epsilon == 0.0
    for _ in range(3):
        losses_of(model, x, y).mean().backward()
        optimizer.step()
    spent = engine.get_privacy_spent()
    assert spent.epsilon == math.inf
    assert str(spent).startswith("NOT PRIVATE: 3 steps of an optimizer without an engine")
    later = small_engine(model, noise_multiplier=1.0)
    later.attach(optimizer)
    assert later.get_privacy_spent().epsilon == math.inf, "these weights were moved so"
    later.detach()
    made_after = small_engine(model, noise_multiplier=1.0, public_weights=True)
    made_after.attach(optimizer)
    optimizer.zero_grad()
    optimizer.step(loss=losses_of(model, x, y))
    assert made_after.get_privacy_spent().wrong == ()


def test_more_steps_than_planned_are_said_before_any_number():
    engine = trained(4, noise_multiplier=None, target_epsilon=3.0, epochs=1)
    assert engine.get_privacy_spent().wrong == ()
    engine = trained(5, noise_multiplier=None, target_epsilon=3.0, epochs=1)
    told = str(engine.get_privacy_spent())
    assert told.startswith("MORE STEPS THAN PLANNED: 5 where the noise was chosen for 4")
    assert "above the target 3" in told.partition("epsilon 3")[0]


@pytest.mark.parametrize(("steps", "is_said"), [(3, True), (4, False)])
def test_an_early_end_is_said_with_the_plan(steps, is_said):
    told = str(trained(steps, noise_multiplier=None, target_epsilon=3.0, epochs=1).get_privacy_spent())
    assert ("If results decide where it ends, quote the epsilon of all 4 planned steps." in told) == is_said


def test_the_cost_of_steps_to_come_assumes_what_is_not_seen_now():
    engine = small_engine(small_model(), noise_multiplier=1.0)
    spent = engine.get_privacy_spent(steps=30)
    assert ([one.name for one in spent.assumed], spent.wrong) == (["draws", "losses"], ())
    assert "in 30 steps" in str(spent)
    assert PrivacySpent((), 0.0, 1e-5, 0, ()).sampling == "seen"


def test_the_printed_epsilon_is_never_below_the_computed_one():
    assert str(PrivacySpent((), 1.0000001, 1e-5, 1, ())).startswith("epsilon 1.00001 at delta 1e-05")
