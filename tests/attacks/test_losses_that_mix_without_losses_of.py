"""Losses that mix examples, by an honest slip: `losses_of=` refuses each; without it the line says so.

`((m(x) - y) ** 2).mean(1)` with outputs (N, 1) and targets (N,) is (N, N) before the mean: every loss holds
every target. Epsilon was told as 1.98, each step "checked to be a Poisson draw"; one record moved the sum by
98.7 C.
"""

import pytest
import torch
import torch.nn.functional as F
from attached import small_engine
from torch import nn

from fl_dp.errors import ProbeError

SIZES = (32, 64, 256)


def model_of(outputs):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, outputs))


def cross_entropy(m, x, y):
    return F.cross_entropy(m(x), y, reduction="none")


def broadcast(m, x, y):
    return ((m(x)[:, :1] - y.float()) ** 2).mean(1)


def divided_by_the_batch(m, x, y):
    return cross_entropy(m, x, y) / len(x)


def class_weights_of_the_batch(m, x, y):
    weights = 1 / torch.bincount(y, minlength=3).clamp_min(1).float()
    return F.cross_entropy(m(x), y, weights, reduction="none")


def hard_examples_only(m, x, y):
    losses = cross_entropy(m, x, y)
    return losses * (losses >= losses.detach().median())


def standardised_by_the_batch(m, x, y):
    return cross_entropy(m, (x - x.mean(0)) / (x.std(0) + 1e-5), y)


def mixup(m, x, y):
    other, share = torch.randperm(len(x)), torch.distributions.Beta(0.4, 0.4).sample()
    outputs = m(share * x + (1 - share) * x[other])
    one, two = (F.cross_entropy(outputs, labels, reduction="none") for labels in (y, y[other]))
    return share * one + (1 - share) * two


MIXING = (
    broadcast,
    divided_by_the_batch,
    class_weights_of_the_batch,
    hard_examples_only,
    standardised_by_the_batch,
    mixup,
)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("losses", MIXING, ids=lambda f: f.__name__)
def test_with_losses_of_each_is_refused(losses, size):
    model = model_of(3)
    engine = small_engine(model, noise_multiplier=1.0, losses_of=lambda x, y: losses(model, x, y))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine.attach(optimizer)
    x, y = torch.randn(size, 6), torch.randint(0, 3, (size,))
    with pytest.raises(ProbeError, match=r"function of its own example|random numbers elsewhere"):
        optimizer.step(loss=engine.losses(x, y))
    assert engine.steps == 0


@pytest.mark.filterwarnings("ignore::fl_dp.errors.AssumedSamplingWarning")
def test_losses_that_are_handed_over_are_assumed_separate_and_the_line_always_says_so():
    for own in (False, True):
        model = model_of(3)
        given = {"losses_of": lambda x, y, m=model: cross_entropy(m, x, y)} if own else {}
        engine = small_engine(model, noise_multiplier=1.0, **given)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        engine.attach(optimizer)
        x, y = torch.randn(32, 6), torch.randint(0, 3, (32,))
        optimizer.step(loss=engine.losses(x, y) if own else cross_entropy(model, x, y))
        told = str(engine.get_privacy_spent())
        assert ("each loss is of its own example alone, in 1 step" in told) is not own
        assert ("PrivacyEngine(losses_of=...)" in told) is not own
