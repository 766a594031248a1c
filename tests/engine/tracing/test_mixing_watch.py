"""A loop's batches are searched now and then: what is found is raised, or only told after a payment."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fl_dp.engine.tracing import mixing
from fl_dp.engine.tracing.mixing import MixingWatch
from fl_dp.errors import ProbeError

MODEL, EVERY = nn.Linear(4, 3), 50


def honest(x, y):
    return F.cross_entropy(MODEL(x), y, reduction="none")


def mixed(x, y):
    losses = honest(x, y)
    return losses / losses.mean().detach()


def raising(x, y):
    raise ValueError("record 17")


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(9, 4, generator=generator), torch.randint(0, 3, (9,), generator=generator)


@pytest.fixture
def always(monkeypatch):
    monkeypatch.setattr(mixing.secrets, "randbelow", lambda n: 0)


def test_without_anybody_to_tell_the_first_batch_is_searched_and_mixing_is_refused(batch):
    assert MixingWatch(honest, 10**9).look(*batch)
    with pytest.raises(ProbeError, match="Another example's loss moved"):
        MixingWatch(mixed, 10**9).look(*batch)


@pytest.mark.parametrize(
    ("losses_of", "words"),
    [(mixed, "Another example's loss moved"), (raising, "it raised ValueError: record 17")],
)
def test_after_a_payment_it_is_told_and_ends_nothing(losses_of, words, batch, always):
    told = []
    assert MixingWatch(losses_of, EVERY, told.append).look(*batch)
    assert [words in one for one in told] == [True]


def test_what_is_right_is_not_told(batch, always):
    told = []
    MixingWatch(honest, EVERY, told.append).look(*batch)
    assert told == []


def test_it_looks_seldom_and_changes_no_random_state(batch):
    calls = []

    def counted(x, y):
        calls.append(1)
        return honest(x, y)

    watch, before = MixingWatch(counted, EVERY, print), torch.get_rng_state()
    for _ in range(20 * EVERY):
        watch.look(*batch)
    assert 0 < len(calls) < 3 * 4 * 20
    assert torch.equal(torch.get_rng_state(), before)
