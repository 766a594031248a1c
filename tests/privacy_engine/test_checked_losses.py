"""The engine makes the losses itself, and looks at them when nobody can foresee it."""

import random

import pytest
import torch
from attached import attached, losses_of, small_batch, small_model

from fl_dp.errors import ConfigError
from fl_dp.privacy_engine import checked_losses
from fl_dp.privacy_engine.checked_losses import CheckedLosses

BATCH = (torch.arange(6.0),)


@pytest.fixture
def searches(monkeypatch):
    """Whether each search that was made was a thorough one."""
    made = []
    monkeypatch.setattr(
        checked_losses, "check_no_mixing", lambda losses_of, *batch, thorough=False: made.append(thorough)
    )
    return made


def test_the_first_batch_is_searched_thoroughly_and_later_one_in_every(searches):
    losses = CheckedLosses(lambda x: x * 2, every=5)
    assert torch.equal(losses(*BATCH), BATCH[0] * 2)
    assert searches == [True]
    for _ in range(2000):
        losses(*BATCH)
    assert set(searches[1:]) == {False}
    assert 300 < len(searches) < 500  # 400 expected, deviation 18


def test_nothing_in_the_losses_tells_when_they_are_searched(searches):
    """A seed of torch or of Python decides nothing."""
    when = []
    for _ in range(2):
        torch.manual_seed(0)
        random.seed(0)
        losses, counts = CheckedLosses(lambda x: x * 2, every=2), []
        searches.clear()
        for _ in range(100):
            losses(*BATCH)
            counts.append(len(searches))
        when.append(counts)
    assert when[0] != when[1]


def test_a_first_batch_in_which_mixing_cannot_show_leaves_the_thorough_search_to_the_next(searches):
    losses = CheckedLosses(lambda x: x * 2, every=10**9)
    for size in (0, 1, 6, 6):
        losses(BATCH[0][:size])
    assert searches == [True] * 3


def test_every_batch_may_be_searched_and_none_may_not(searches):
    losses = CheckedLosses(lambda x: x * 2, every=1)
    for _ in range(4):
        losses(*BATCH)
    assert searches == [True, False, False, False]
    with pytest.raises(ConfigError, match="check_every=0"):
        CheckedLosses(lambda x: x, every=0)


def test_the_losses_of_a_searched_batch_are_those_that_it_would_have_had():
    """Dropout included: the search leaves the random state as it was."""
    x, y = small_batch()
    sums = []
    for every in (1, 10**9):
        model = torch.nn.Sequential(*small_model(), torch.nn.Dropout(0.5))
        options = {"losses_of": lambda x, y, model=model: losses_of(model, x, y), "check_every": every}
        _, optimizer, engine = attached(model, generator=torch.Generator().manual_seed(3), **options)
        torch.manual_seed(5)
        for _ in range(3):
            optimizer.step(loss=engine.losses(x, y))
        sums.append(model[0].weight.grad)
    assert torch.equal(*sums)


def test_an_engine_without_losses_of_says_what_it_needs_and_a_locked_one_makes_none():
    _, _, engine = attached()
    with pytest.raises(ConfigError, match="losses_of"):
        engine.losses(*small_batch())
    _, _, engine = attached(losses_of=lambda x, y: x)
    engine.lock()
    with pytest.raises(ConfigError, match="unlock"):
        engine.losses(*small_batch())
