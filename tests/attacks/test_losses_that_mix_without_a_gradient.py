"""Losses in which examples move one another behind the gradient's back.

The attacker knows every record but one, and how the losses are made: one's loss is divided by the batch's
mean, which was detached first. The autograd graph holds no trace of it. Each example's gradient is clipped
to C as promised; but the record in question scales the gradients of all the others, so that adding it moves
the sum by many times C, and noise made for C does not hide that.

An engine that sees only a tensor of losses cannot know, and says so. One that makes the losses itself
(`losses_of=`) changes some examples, looks whether others' losses move, and refuses: at first, and at
moments that the losses cannot foresee.
"""

import pytest
import torch
import torch.nn.functional as F
from attached import small_batch, small_model
from torch import nn

from fl_dp import PrivacyEngine, clipped_grad_sum
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


def _mixed_inputs(model, x, y):
    return _own(model, x + 0.5 * x[torch.randperm(len(x))], y)


def _over_the_size(model, x, y):
    return _own(model, x, y) / len(x)


def _over_the_size_with_dropout(model, x, y):
    return _own(nn.Sequential(model[0], nn.Dropout(0.5), model[2]), x, y) / len(x)


def _by_position(model, x, y):
    return _own(model, x, y) * torch.linspace(1.0, 2.0, 100)[: len(x)]


class _FromThe40thCall:
    def __init__(self):
        self.calls = 0

    def __call__(self, model, x, y):
        self.calls += 1
        return _over_the_mean(model, x, y) if self.calls >= 40 else _own(model, x, y)


def _one_time_in_twenty(model, x, y):
    return _over_the_mean(model, x, y) if float(torch.rand(())) < 0.05 else _own(model, x, y)


AT_ONCE = {
    "over the mean": _over_the_mean,
    "detached negatives": _detached_negatives,
    "statistics behind a condition": _statistics_behind_a_condition,
    "mixed inputs": _mixed_inputs,
    "over the size": _over_the_size,
    "over the size, with dropout": _over_the_size_with_dropout,
    "by position": _by_position,
}


def _engine(losses, **options):
    model = small_model()
    engine = PrivacyEngine(
        model,
        batch_size=10,
        sample_size=1000,
        max_grad_norm=0.1,
        noise_multiplier=1.0,
        losses_of=lambda x, y: losses(model, x, y),
        **options,
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    engine.attach(optimizer)
    return engine, optimizer


def test_the_attack_one_record_moves_the_sum_by_more_than_its_bound():
    """What is at stake: no noise of multiplier 1 hides a move of several C."""
    model, bound = small_model(), 1.0
    with torch.no_grad():
        model[2].bias.copy_(torch.tensor([10.0, 0.0, 0.0]))
    x, y = (
        torch.zeros(64, 6),
        torch.tensor([1] + 63 * [0]),
    )  # all known records alike, and one with a huge loss

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
