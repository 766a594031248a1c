"""A bound that follows the gradients: what a step releases, what that costs, and where the bound goes."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from definition import assert_equal, gradients, length
from structured import Called
from torch import nn
from trainers import plan_of, trainer_for

from fl_dp.accounting.noise_split import split_noise
from fl_dp.config.adaptive_clipping import REACH
from fl_dp.config.task import TaskSettings
from fl_dp.data.persons import PersonData
from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.noise.gaussian import add_gaussian_noise
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.engine.sum_error import sum_error
from fl_dp.tasks.task import Task
from fl_dp.training import private
from fl_dp.training.clipping_bound import AdaptiveBound, bound_of, shortness
from fl_dp.training.kept import go_on_from, read_state, state_of

PLAN = plan_of(max_grad_norm=0.7, adaptive_clipping="quantile:0.5")


def _linear():
    torch.manual_seed(3)
    return nn.Linear(5, 3)


def _trainer(data, plan=PLAN, model=None, key=bytes(32)):
    return trainer_for(model or _linear(), data, plan, key=key)


def _sum_of(rows, bound):
    """A clipped sum of these gradients (N, d), each scaled to the bound at most."""
    norms = rows.norm(dim=1)
    factors = (bound / norms).clamp_max(1.0).unsqueeze(1)
    return ClippedSum({"w": (rows * factors).sum(0)}, bound, norms)


def test_a_bound_without_words_stays_and_nothing_is_added_to_the_sum_or_kept(data):
    bound = bound_of(replace(PLAN, adaptive_clipping=""))
    clipped = _sum_of(torch.randn(4, 3), 0.7)
    assert bound.to_noise(clipped) is clipped
    assert bound.descended(clipped.grads) is clipped.grads
    assert bound.kept() is None
    trainer = _trainer(data, replace(PLAN, adaptive_clipping=""))
    trainer.step(data, 0.2, 8)
    assert state_of(trainer) == b""


@pytest.mark.parametrize("length", [0.0, 1e-9, 0.63, 0.7, 0.77, 50.0, math.inf, math.nan])
def test_one_record_moves_all_that_is_noised_by_no_more_than_the_sensitivity(length):
    """Whatever its length: neighbours, with and without it."""
    others, bound = _sum_of(torch.randn(9, 4, dtype=torch.float64), 0.7), bound_of(PLAN)
    here = min(length, 0.7) if math.isfinite(length) else 0.0  # the engine adds nothing of such a record
    grads = {"w": others.grads["w"] + here * torch.eye(4, dtype=torch.float64)[2]}
    one_more = ClippedSum(grads, 0.7, torch.cat([others.norms, torch.tensor([length], dtype=torch.float64)]))
    without, found = bound.to_noise(others), bound.to_noise(one_more)
    moved = torch.cat([(found.grads[name] - without.grads[name]).flatten() for name in found.grads]).norm()
    assert moved <= found.sensitivity * (1 + 1e-12)
    assert found.sensitivity == without.sensitivity
    if length >= 0.77:  # as long as can be, in both parts at once
        assert moved >= (found.sensitivity if math.isfinite(length) else 0.1) * (1 - 1e-9)


@pytest.mark.parametrize("bound", [1e-6, 0.7, 3e5])
def test_the_noise_of_sum_and_count_is_that_of_the_split(bound):
    """Drawn, on the grid: the multiplier is the plan's, over the sensitivity of both."""
    plan = replace(PLAN, max_grad_norm=bound, noise_multiplier=1.3, expected_batch_size=64)
    empty = ClippedSum({"w": torch.zeros(4000)}, bound, torch.zeros(0))
    split, both = split_noise(1.3, 64), bound_of(plan).to_noise(empty)
    keys = (Randomness(number.to_bytes(32, "big")) for number in range(400))
    drawn = [add_gaussian_noise(both, noise_multiplier=1.3, generator=key) for key in keys]
    per_half = split.ratio * bound
    with_rounding = split.sum * bound * (1 + sum_error(empty.most))
    assert torch.cat([one["w"].double() for one in drawn]).std() == pytest.approx(with_rounding, rel=0.005)
    assert torch.stack([one["count."] for one in drawn]).std() == pytest.approx(
        split.count * per_half, rel=0.12
    )
    assert split.count * per_half == pytest.approx(split.sum * bound)  # both numbers have noise of one size


def test_short_and_long_gradients_count_a_half_each_way():
    norms = torch.tensor([0.1, 0.5, 0.899, 0.95, 1.0, 1.05, 1.101, 7.0, math.inf, math.nan])
    direct = [0.5, 0.5, 0.5, 0.25, 0.0, -0.25, -0.5, -0.5, -0.5, -0.5]
    for norm, expected in zip(norms, direct, strict=True):
        assert shortness(norm.reshape(1), 1.0) == pytest.approx(expected, abs=1e-6)
    assert shortness(norms, 1.0) == pytest.approx(sum(direct), abs=1e-5)
    assert shortness(norms * 1e-9, 1e-9) == pytest.approx(sum(direct), abs=1e-5)
    assert shortness(torch.zeros(0), 1.0) == 0


@pytest.fixture
def no_noise(monkeypatch):
    """What would have been noised, in the order of the steps."""
    seen = []
    monkeypatch.setattr(private, "add_gaussian_noise", lambda one, **_: seen.append(one) or one.grads)
    return seen


def test_a_step_is_that_of_the_paper_computed_directly(data, no_noise):
    """Algorithm 1 of Andrew et al. 2021 without noise, one backward pass for each example, in float64."""
    model, reference = _linear().double(), _linear().double()
    in_double = Called(model, lambda m, x: m(x.double()))
    trainer = _trainer(data, replace(PLAN, adaptive_clipping="quantile:0.3:0.4"), in_double)
    bound = 0.7
    for _ in range(5):
        draw = trainer.draw(data, 0.2)
        losses = [F.cross_entropy(reference(data.x[i].double()), data.y[i]) for i in draw]
        grads = [gradients(reference, loss) for loss in losses]
        norms = [length(grad) for grad in grads]
        for name, parameter in reference.named_parameters():
            total = sum(grad[name] * min(1.0, bound / norm) for grad, norm in zip(grads, norms, strict=True))
            parameter.data -= 0.5 * total / bound / 20
        short = sum(min(1.0, max(0.0, (1.1 - norm / bound) / 0.2)) - 0.5 for norm in norms)
        bound *= math.exp(0.4 * (0.3 - min(1.0, max(0.0, short / 20 + 0.5))))
        trainer.step(data, 0.2, 8)
        assert trainer.bound.value == pytest.approx(bound, rel=1e-9)
        assert_equal(dict(model.named_parameters()), dict(reference.named_parameters()))
    assert bound != 0.7


@pytest.mark.parametrize("views", [1, 2])
@pytest.mark.parametrize("arithmetic", ["steady-rows", "proven"])
def test_a_person_counts_once_however_many_records_and_views(arithmetic, views, no_noise):
    """Ten persons of one to three records, all drawn: the count is of ten, as the sensitivity says."""
    owners = tuple(f"p{min(i // 3, 9)}" for i in range(28))
    records = TensorData(torch.randn(28, 1, 4, 4), torch.arange(28) % 3, ("a", "b", "c"), groups=owners)
    data, seen = PersonData(records, 3), {"augmentation": "flip", "views": views} if views > 1 else {}
    task = Task(TaskSettings(unit="person:who", records_per_person=3, **seen))
    task.form = data.form
    plan = replace(PLAN, max_grad_norm=1e3, expected_batch_size=10, unit="person", arithmetic=arithmetic)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    trainer_for(model, task.objective, plan).step(data, 1.0, 8)
    per_half = split_noise(1.0, 10).ratio * 1e3
    (noised,) = no_noise
    assert len(noised.norms) == len(data) == 10
    assert noised.grads["count."].item() == pytest.approx(10 * per_half)  # all are short
    assert noised.sensitivity == pytest.approx(math.hypot(1e3, per_half))


def test_the_bound_stays_within_reach_whatever_is_seen_or_kept():
    bound = AdaptiveBound(PLAN, bound_of(PLAN)._adaptation)
    for count in (1e30, -1e30):
        for _ in range(400):
            bound.descended({"w": torch.zeros(1), "count.": torch.tensor([count])})
        assert bound.value in (0.7 / REACH, 0.7 * REACH)
    bound.go_on_from(1e300)
    assert bound.value == 0.7 * REACH
    bound.go_on_from(1e-300)
    assert bound.value == 0.7 / REACH


def test_a_step_moves_the_bound_by_its_rate_at_most_whatever_the_noise():
    bound = bound_of(PLAN)
    for count, quantile_left in ((1e30, -0.5), (-1e30, 0.5)):
        before = bound.value
        bound.descended({"count.": torch.tensor([count])})
        assert bound.value == pytest.approx(before * math.exp(0.2 * quantile_left))


def test_the_next_round_goes_on_from_the_bound_and_repeats_bit_by_bit(data):
    trainer = _trainer(data)
    for _ in range(3):
        trainer.step(data, 0.2, 8)
    state, moved = state_of(trainer), trainer.bound.value
    assert moved != 0.7
    assert read_state(state)["bound"] == moved
    ends = []
    for _ in range(2):
        again = _trainer(data, key=b"k" * 32)
        go_on_from(again, {}, state)
        assert again.bound.value == moved
        again.step(data, 0.2, 8)
        ends.append((again.bound.value, *(p.clone() for p in again._passes.model.parameters())))
    assert ends[0][0] == ends[1][0] != moved
    assert all(torch.equal(*pair) for pair in zip(ends[0][1:], ends[1][1:], strict=True))
