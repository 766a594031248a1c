"""A step is a draw, a clipped sum, noise and a descent, in this order, each from what the one before gave."""

import math

import pytest
import torch
from torch import nn

from fl_dp.engine.backward import keep_gradients
from fl_dp.engine.clipping import clipped_grad_sum
from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.engine.noise.gaussian import add_gaussian_noise, share_of_sum
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.engine.sampling import in_random_order, poisson_draw
from fl_dp.records import MOST_WEIGHT
from fl_dp.training import step
from fl_dp.training.step import DpSgd, added_up, clipped_pass, descend, draw, noised, nothing, take_step

SOURCE = Randomness(bytes(range(32)))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Linear(5, 3)


def rule_of(model, **changes):
    given = {"max_grad_norm": 0.5, "clipping": "abadi", "noise_multiplier": 1.5, "batch_size": 20}
    return DpSgd(dict(model.named_parameters()), **given | changes)


def losses_of(model, data, indices):
    x, y = data.batch(indices)
    return nn.functional.cross_entropy(model(x), y, reduction="none")


def test_a_step_noises_the_clipped_sum_of_its_draw_and_descends_along_nothing_else(model, data):
    rule, drawn, went = rule_of(model), [], []

    def clipped_sum(indices):
        drawn.append(indices)
        return clipped_grad_sum(
            losses_of(model, data, indices), rule.parameters, max_grad_norm=0.5, most=rule.most
        )

    take_step(rule, SOURCE, len(data), 0.2, clipped_sum, went.append)
    (indices,), (noisy,) = drawn, went
    assert torch.equal(indices.sort().values, poisson_draw(len(data), 0.2, SOURCE.child("draw")))
    assert torch.equal(indices, draw(rule, SOURCE, len(data), 0.2))
    expected = add_gaussian_noise(clipped_sum(indices), noise_multiplier=1.5, generator=SOURCE)
    assert all(torch.equal(noisy[name], one) for name, one in expected.items())


def test_an_empty_draw_is_a_step_and_its_noise_is_whole(model):
    rule, went = rule_of(model), []
    take_step(rule, SOURCE, 10, 1e-12, lambda drawn: added_up(rule, []), went.append)
    expected = add_gaussian_noise(nothing(rule), noise_multiplier=1.5, generator=SOURCE)
    assert all(torch.equal(went[0][name], one) and one.any() for name, one in expected.items())


def test_a_draw_is_never_larger_than_rounding_was_charged_for(model, monkeypatch):
    rule = rule_of(model)
    monkeypatch.setattr(step, "most_drawn", lambda expected: 7)
    assert len(draw(rule, SOURCE, 100, 1.0)) == 7


def test_a_draw_is_in_an_order_of_its_own(model):
    found = draw(rule_of(model), SOURCE, 40, 1.0)
    assert torch.equal(found, in_random_order(torch.arange(40), SOURCE.child("order")))
    assert not torch.equal(found, torch.arange(40))
    assert not torch.equal(found, draw(rule_of(model), SOURCE.child("another step"), 40, 1.0))


def test_passes_add_up_to_the_clipped_sum_of_all_and_padding_counts_for_nothing(model, data):
    rule = rule_of(model)
    whole = clipped_grad_sum(losses_of(model, data, torch.arange(12)), rule.parameters, max_grad_norm=0.5)

    def passed(first):
        losses = losses_of(model, data, torch.arange(first, first + 8))
        kept = keep_gradients(losses, rule.parameters, None, KernelChooser())
        return clipped_pass(rule, losses, kept, ignored=torch.arange(first, first + 8) >= 12)

    found = added_up(rule, (passed(first) for first in (0, 8)))
    for name, one in whole.grads.items():
        torch.testing.assert_close(found.grads[name].float(), one)


def test_a_share_of_the_noise_is_in_integers(model):
    rule = rule_of(model, shares=4)
    found = noised(rule, nothing(rule), SOURCE)
    expected, _ = share_of_sum(nothing(rule), noise_multiplier=1.5, shares=4, generator=SOURCE)
    assert {one.dtype for one in found.values()} == {torch.int64}
    assert all(torch.equal(found[name], one) for name, one in expected.items())


@pytest.mark.parametrize("size", [1.0, math.inf, math.nan])
def test_weights_stay_finite_whatever_the_descent_makes_of_them(model, size):
    def move(sums):
        with torch.no_grad():
            for parameter, one in zip(model.parameters(), sums, strict=True):
                parameter.sub_(one)

    noisy = {name: torch.full_like(one, size, dtype=torch.float64) for name, one in model.named_parameters()}
    descend(rule_of(model), noisy, lambda sums, size: sums, move)
    for parameter in model.parameters():
        assert bool(parameter.isfinite().all())
        assert float(parameter.detach().abs().max()) <= MOST_WEIGHT
