"""Losses in which examples move one another behind the gradient's back.

The attacker knows every record but one. A loss is divided by the batch's mean, which was detached: the graph
holds no trace of it. Each gradient is clipped to C, but the record in question scales those of all others,
and moves the sum by many times C.

An engine that sees only losses cannot know, and says so. One that makes them itself (`losses_of=`) changes
some examples, looks whether others' losses move, and refuses: at first, and at moments that cannot be
foreseen.
"""

import pytest
import torch
import torch.nn.functional as F
from attached import attached, small_batch, small_model

from fl_dp import clipped_grad_sum
from fl_dp.errors import ConfigError, ProbeError


def _own(model, x, y):
    return F.cross_entropy(model(x), y, reduction="none")


def _over_the_mean(model, x, y):
    losses = _own(model, x, y)
    return losses / losses.mean().detach()


def _detached_negatives(model, x, y):
    """InfoNCE: an example against all others, from whom no gradient comes."""
    z = F.normalize(model(x))
    logits = z @ z.detach().T / 0.1
    return F.cross_entropy(logits, torch.arange(len(x)), reduction="none")


def _statistics_behind_a_condition(model, x, y):
    centred = x - x.mean(0) if bool(x.abs().sum() > 0) else x
    return _own(model, centred, y)


def _over_the_size(model, x, y):
    return _own(model, x, y) / len(x)


class _FromThe40thCall:
    def __init__(self):
        self.calls = 0

    def __call__(self, model, x, y):
        self.calls += 1
        return _over_the_mean(model, x, y) if self.calls >= 40 else _own(model, x, y)


def _one_time_in_twenty(model, x, y):
    return _over_the_mean(model, x, y) if torch.bernoulli(torch.tensor(0.05)) else _own(model, x, y)


AT_ONCE = {
    "over the mean": _over_the_mean,
    "detached negatives": _detached_negatives,
    "statistics behind a condition": _statistics_behind_a_condition,
    "over the size": _over_the_size,
}


def _engine(losses, **options):
    model = small_model()
    _, optimizer, engine = attached(model, losses_of=lambda x, y: losses(model, x, y), **options)
    return engine, optimizer


def test_the_attack_one_record_moves_the_sum_by_more_than_its_bound():
    """What is at stake: no noise of multiplier 1 hides a move of several C."""
    model, bound = small_model(), 1.0
    with torch.no_grad():
        model[2].bias.copy_(torch.tensor([10.0, 0.0, 0.0]))
    x, y = torch.zeros(64, 6), torch.tensor([1] + 63 * [0])  # all alike, and one with a huge loss

    def clipped(x, y):
        losses = _over_the_mean(model, x, y)
        return clipped_grad_sum(losses, dict(model.named_parameters()), max_grad_norm=bound).grads

    with_it, without = clipped(x, y), clipped(x[1:], y[1:])
    moved = torch.cat([(with_it[name] - without[name]).flatten() for name in with_it]).norm()
    assert moved > 20 * bound


@pytest.mark.parametrize("case", AT_ONCE)
def test_losses_that_mix_are_refused_on_the_first_batch(case):
    engine, _ = _engine(AT_ONCE[case])
    with pytest.raises(ProbeError, match="function of its own example"):
        engine.losses(*small_batch(20))
    assert engine.steps == 0


@pytest.mark.parametrize("losses", [_FromThe40thCall(), _one_time_in_twenty], ids=["from the 40th", "5 %"])
def test_losses_that_begin_to_mix_or_seldom_do_are_refused_soon(losses):
    """One batch in four is searched. That 200 batches pass has a probability of 1e-20, or of 1e-4."""
    engine, optimizer = _engine(losses, check_every=4)

    def train():
        for _ in range(200):
            optimizer.step(loss=engine.losses(*small_batch(20)))

    with pytest.raises(ProbeError, match="function of its own example"):
        train()
    assert engine.steps < 200


def test_losses_that_were_made_elsewhere_are_refused_where_they_were_to_be_searched():
    engine, optimizer = _engine(_own)
    with pytest.raises(ConfigError, match=r"engine\.losses"):
        optimizer.step(loss=_own(engine.module, *small_batch()))
    assert engine.steps == 0
