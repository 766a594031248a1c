"""A bound that follows the gradients: what a step releases, what that costs, and where the bound goes."""

import math
from dataclasses import replace

import pytest
import torch
from objectives import objective_for
from torch import nn

from fl_dp.accounting.noise_split import split_noise
from fl_dp.config.adaptive_clipping import REACH
from fl_dp.config.task import TaskSettings
from fl_dp.data.persons import PersonData
from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.noise.gaussian import add_gaussian_noise
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.engine.probe import probe
from fl_dp.records import RoundPlan
from fl_dp.tasks.task import Task
from fl_dp.training import private
from fl_dp.training.clipping_bound import AdaptiveBound, bound_of, shortness
from fl_dp.training.examples import axes_of
from fl_dp.training.kept import go_on_from, read_state, state_of

PLAN = RoundPlan(
    run="run", server_round=1, model="linear", steps=4, expected_batch_size=20, learning_rate=0.5,
    momentum=0.0, noise_multiplier=1.0, max_grad_norm=0.7, adaptive_clipping="quantile:0.5",
)  # fmt: skip


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 3, (100,), generator=generator)
    x = torch.randn(100, 5, generator=generator) + 2 * nn.functional.one_hot(y, 5)
    return TensorData(x, y, ("a", "b", "c"))


def _trainer(data, plan=PLAN, model=None, key=bytes(32)):
    torch.manual_seed(3)
    model = model or nn.Linear(5, 3)
    return private.PrivateTrainer(
        model,
        probe(model, data.x),
        plan,
        objective_for(data.form),
        device=torch.device("cpu"),
        randomness=Randomness(key),
    )


class _InDouble(nn.Module):
    def forward(self, x):
        return x.double()


def _in_double():
    torch.manual_seed(3)
    return nn.Sequential(_InDouble(), nn.Linear(5, 3).double())


def _sum_of(rows, bound):
    """A clipped sum of these gradients (N, d), each scaled to the bound at most."""
    norms = rows.norm(dim=1)
    factors = (bound / norms).clamp_max(1.0).unsqueeze(1)
    return ClippedSum({"w": (rows * factors).sum(0)}, bound, norms)


def test_a_bound_without_words_stays_and_nothing_is_added_to_the_sum():
    bound = bound_of(replace(PLAN, adaptive_clipping=""))
    clipped = _sum_of(torch.randn(4, 3), 0.7)
    assert bound.to_noise(clipped) is clipped
    assert bound.descended(clipped.grads) is clipped.grads
    assert bound.kept() is None


@pytest.mark.parametrize("length", [0.0, 1e-9, 0.63, 0.7, 0.77, 50.0, math.inf, math.nan])
def test_one_record_moves_all_that_is_noised_by_no_more_than_the_sensitivity(length):
    """Whatever its length: neighbours, with and without it."""
    generator = torch.Generator().manual_seed(1)
    others = torch.randn(9, 4, generator=generator, dtype=torch.float64)
    bound = bound_of(PLAN)
    without = bound.to_noise(_sum_of(others, 0.7))
    record = torch.zeros(4, dtype=torch.float64)
    record[2] = 1.0
    clipped = _sum_of(others, 0.7)
    here = min(length, 0.7) if math.isfinite(length) else 0.0  # the engine adds nothing of such a record
    one_more = ClippedSum(
        {"w": clipped.grads["w"] + here * record},
        0.7,
        torch.cat([clipped.norms, torch.tensor([length], dtype=torch.float64)]),
    )
    found = bound.to_noise(one_more)
    moved = torch.cat([(found.grads[name] - without.grads[name]).flatten() for name in found.grads]).norm()
    assert moved <= found.sensitivity * (1 + 1e-12)
    assert found.sensitivity == without.sensitivity
    if length >= 0.77:  # as long as can be, in both parts at once
        assert moved >= (found.sensitivity if math.isfinite(length) else math.hypot(0, 0.1)) * (1 - 1e-9)


@pytest.mark.parametrize("bound", [1e-6, 0.7, 3e5])
def test_the_noise_of_sum_and_count_is_that_of_the_split(bound):
    """Drawn, on the grid: the multiplier is the plan's, over the sensitivity of both."""
    plan = replace(PLAN, max_grad_norm=bound, noise_multiplier=1.3, expected_batch_size=64)
    split, adaptive = split_noise(1.3, 64), bound_of(plan)
    empty = ClippedSum({"w": torch.zeros(4000)}, bound, torch.zeros(0))
    sums, counts = [], []
    for number in range(400):
        noisy = add_gaussian_noise(
            adaptive.to_noise(empty), noise_multiplier=1.3, generator=Randomness(number.to_bytes(32, "big"))
        )
        sums.append(noisy["w"].double())
        counts.append(noisy["count."].item())
    per_half = split.ratio * bound
    assert torch.cat(sums).std().item() == pytest.approx(split.sum * bound, rel=0.01)
    assert torch.tensor(counts).std().item() == pytest.approx(split.count * per_half, rel=0.12)
    assert split.count * per_half == pytest.approx(split.sum * bound)  # both numbers have noise of one size


def test_short_and_long_gradients_count_a_half_each_way():
    norms = torch.tensor([0.1, 0.5, 0.899, 0.95, 1.0, 1.05, 1.101, 7.0, math.inf, math.nan])
    direct = [0.5, 0.5, 0.5, 0.25, 0.0, -0.25, -0.5, -0.5, -0.5, -0.5]
    for norm, expected in zip(norms, direct, strict=True):
        assert shortness(norm.reshape(1), 1.0) == pytest.approx(expected, abs=1e-6)
    assert shortness(norms, 1.0) == pytest.approx(sum(direct), abs=1e-5)
    assert shortness(norms * 1e-9, 1e-9) == pytest.approx(sum(direct), abs=1e-5)
    assert shortness(torch.zeros(0), 1.0) == 0


def test_a_last_bit_of_a_thousand_lengths_moves_the_count_by_next_to_nothing():
    """At a sharp bound it would move it by a thousand examples."""
    at_the_bound = torch.full((1000,), 0.7, dtype=torch.float32)
    off = torch.nextafter(at_the_bound, torch.tensor(1.0))
    assert abs(shortness(at_the_bound, 0.7) - shortness(off, 0.7)) < 1e-3


def test_a_step_is_that_of_the_paper_computed_directly(data, monkeypatch):
    """Algorithm 1 of Andrew et al. 2021 without noise, one backward pass for each example, in float64."""
    monkeypatch.setattr(private, "add_gaussian_noise", lambda clipped, **_: clipped.grads)
    plan = replace(PLAN, adaptive_clipping="quantile:0.3:0.4", momentum=0.0)
    trainer, reference = _trainer(data, plan, _in_double()), _in_double()
    expected_bound = 0.7
    for _ in range(5):
        draw = trainer.draw(data, 0.2)
        total, short = [torch.zeros_like(p) for p in reference.parameters()], 0.0
        for index in draw.tolist():
            x, y = data.batch(torch.tensor([index]))
            loss = nn.functional.cross_entropy(reference(x), y)
            grads = torch.autograd.grad(loss, list(reference.parameters()))
            norm = math.sqrt(sum(float(grad.square().sum()) for grad in grads))
            for part, grad in zip(total, grads, strict=True):
                part += grad * min(1.0, expected_bound / norm)
            short += min(1.0, max(0.0, (1.1 - norm / expected_bound) / 0.2)) - 0.5
        with torch.no_grad():
            for parameter, part in zip(reference.parameters(), total, strict=True):
                parameter -= 0.5 * part / expected_bound / 20
        share = min(1.0, max(0.0, short / 20 + 0.5))
        expected_bound *= math.exp(0.4 * (0.3 - share))
        trainer.step(data, 0.2, 8)
        assert trainer.bound.value == pytest.approx(expected_bound, rel=1e-9)
        for found, expected in zip(trainer._model.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
    assert expected_bound != 0.7


@pytest.mark.parametrize("views", [1, 2])
@pytest.mark.parametrize("arithmetic", ["assumed", "proven"])
def test_a_person_counts_once_however_many_records_and_views(arithmetic, views, monkeypatch):
    """Ten persons of one to three records, all drawn: the count is of ten, as the sensitivity says."""
    random = torch.Generator().manual_seed(0)
    owners = tuple(f"p{min(i // 3, 9)}" for i in range(28))
    x, y = torch.randn(28, 1, 4, 4, generator=random), torch.randint(0, 3, (28,), generator=random)
    data = PersonData(TensorData(x, y, ("a", "b", "c"), groups=owners), 3)
    settings = {"augmentation": "flip", "views": views} if views > 1 else {}
    task = Task(TaskSettings(unit="person:who", records_per_person=3, **settings))
    task.form = data.form
    noised = []
    monkeypatch.setattr(private, "add_gaussian_noise", lambda one, **_: noised.append(one) or one.grads)
    plan = replace(PLAN, max_grad_norm=1e3, expected_batch_size=10, unit="person", arithmetic=arithmetic)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    cpu = torch.device("cpu")
    trainer = private.PrivateTrainer(
        model, axes_of(model, task.objective, cpu), plan, task.objective, device=cpu,
        randomness=Randomness(bytes(32)),
    )  # fmt: skip
    trainer.step(data, 1.0, 8)
    per_half = split_noise(1.0, 10).ratio * 1e3
    assert len(noised[0].norms) == len(data) == 10
    assert noised[0].grads["count."].item() == pytest.approx(10 * per_half)  # all are short
    assert noised[0].sensitivity == pytest.approx(math.hypot(1e3, per_half))


@pytest.mark.parametrize("arithmetic", ["assumed", "proven"])
def test_the_bound_finds_the_quantile_from_both_sides(data, arithmetic):
    ends = []
    for first in (0.02, 40.0):
        plan = replace(
            PLAN, max_grad_norm=first, learning_rate=1e-9, adaptive_clipping="quantile:0.5:1",
            expected_batch_size=90, arithmetic=arithmetic,
        )  # fmt: skip
        trainer = _trainer(data, plan)
        for _ in range(40):
            trainer.step(data, 0.9, 128)
        ends.append(trainer.bound.value)
    model = _trainer(data)._model
    lengths = []
    for x, y in zip(*data.batch(torch.arange(100)), strict=True):
        grads = torch.autograd.grad(nn.functional.cross_entropy(model(x), y), list(model.parameters()))
        lengths.append(math.sqrt(sum(float(grad.square().sum()) for grad in grads)))
    low, high = torch.tensor(lengths).quantile(torch.tensor([0.3, 0.7])).tolist()
    assert all(low < end < high for end in ends), (low, ends, high)


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
        ends.append((again.bound.value, *(p.clone() for p in again._model.parameters())))
    assert ends[0][0] == ends[1][0] != moved
    assert all(torch.equal(*pair) for pair in zip(ends[0][1:], ends[1][1:], strict=True))


def test_without_the_words_nothing_is_kept(data):
    trainer = _trainer(data, replace(PLAN, adaptive_clipping=""))
    trainer.step(data, 0.2, 8)
    assert state_of(trainer) == b""


def test_the_learning_rate_does_not_depend_on_where_the_bound_is(data, monkeypatch):
    """Gradients all longer than either bound: the same step."""
    monkeypatch.setattr(private, "add_gaussian_noise", lambda clipped, **_: clipped.grads)
    ends = []
    for first in (1e-4, 1e-3):
        trainer = _trainer(data, replace(PLAN, max_grad_norm=first))
        trainer.step(data, 0.2, 8)
        ends.append(trainer._model.weight.detach())
    torch.testing.assert_close(*ends, rtol=0, atol=1e-6)
