"""Losses that mix records are refused before a payment, and only told to the log after it."""

import pytest
import torch
import torch.nn.functional as F
from objectives import objective_for
from torch import nn

from fl_dp.errors import ProbeError
from fl_dp.form import Form
from fl_dp.training import mixing_watch
from fl_dp.training.mixing_watch import EVERY, MixingWatch

MODEL = nn.Linear(4, 3)


def honest(x, y):
    return F.cross_entropy(MODEL(x), y, reduction="none")


def mixing(x, y):
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
    monkeypatch.setattr(mixing_watch.secrets, "randbelow", lambda n: 0)


def test_before_a_payment_mixing_is_refused():
    MixingWatch(honest).check(objective_for(Form((4,), 3)))
    with pytest.raises(ProbeError, match="Another example's loss moved"):
        MixingWatch(mixing).check(objective_for(Form((4,), 3)))


@pytest.mark.parametrize(
    ("losses_of", "words"), [(mixing, "Another example's loss moved"), (raising, "it raised ValueError")]
)
def test_after_a_payment_it_is_told_to_the_log(losses_of, words, batch, always, caplog):
    MixingWatch(losses_of).look(*batch)
    assert words in caplog.text


def test_what_is_right_is_not_told(batch, always, caplog):
    MixingWatch(honest).look(*batch)
    assert caplog.text == ""


def test_it_looks_seldom_and_changes_no_random_state(batch):
    calls = []

    def counted(x, y):
        calls.append(1)
        return honest(x, y)

    watch, before = MixingWatch(counted), torch.get_rng_state()
    for _ in range(20 * EVERY):
        watch.look(*batch)
    assert 0 < len(calls) < 3 * 4 * 20
    watch.check(objective_for(Form((4,), 3)))
    assert torch.equal(torch.get_rng_state(), before)
