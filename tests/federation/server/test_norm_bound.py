"""No honest update is longer than the bound, whatever its data; what is longer is scaled down to it."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from fl_dp.federation.server import norm_bound as module
from fl_dp.federation.server.norm_bound import is_bounded, largest_draw, norm_bound
from fl_dp.federation.wire.arrays import state_arrays
from fl_dp.records import MOST_WEIGHT, RoundPlan

PLAN = RoundPlan("run", 1, "linear", 12, 20, 0.5, 0.0, 1.3, 0.8)
EPS = float(np.finfo(np.float32).eps)
CHANCES = 10_000.0


def bound(plan, size=200, numbers=50, start=0.0):
    return norm_bound(plan, size, plan.steps, numbers, start, EPS, CHANCES)


@pytest.mark.parametrize(("size", "rate"), [(100, 0.2), (1000, 0.01), (60_000, 0.001), (30, 0.9)])
def test_a_draw_exceeds_its_bound_as_rarely_as_stated(size, rate):
    """Against the binomial tail itself, summed."""
    for chance in (1e-2, 1e-6, 1e-12):
        most = largest_draw(size, rate, math.log(1 / chance))
        tail = math.fsum(
            math.exp(
                math.lgamma(size + 1)
                - math.lgamma(k + 1)
                - math.lgamma(size - k + 1)
                + k * math.log(rate)
                + (size - k) * math.log1p(-rate)
            )
            for k in range(most + 1, size + 1)
        )
        assert tail <= chance
        assert size * rate < most <= size
        assert most == size or most <= size * rate + 12 * math.sqrt(size * rate * math.log(1 / chance)) + 30


def test_the_edges_of_a_draw():
    assert largest_draw(50, 1.0, 30.0) == 50
    assert largest_draw(1, 0.5, 30.0) == 1
    assert largest_draw(10**12, 64e-12, 40.0) < 200  # where rounding would hide the exponent


def steepest(plan, size, numbers, rng):
    """How far the hardest honest data lead: all gradients as long as they may be, and of one direction."""
    rate = plan.expected_batch_size / size
    direction = np.ones(numbers) / math.sqrt(numbers)
    weights, velocity = np.zeros(numbers), np.zeros(numbers)
    for _ in range(plan.steps):
        drawn = rng.binomial(size, rate)
        noise = rng.normal(size=numbers) * plan.noise_multiplier * plan.max_grad_norm * 1.005
        gradient = (drawn * plan.max_grad_norm * direction + noise) / plan.expected_batch_size
        gradient += plan.pull * weights
        velocity = plan.momentum * velocity + gradient
        weights = np.clip(weights - plan.learning_rate * velocity, -MOST_WEIGHT, MOST_WEIGHT)
    return float(np.linalg.norm(weights))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"momentum": 0.9},
        {"learning_rate": 1e30, "momentum": 0.99},
        {"noise_multiplier": 40.0},
        {"noise_multiplier": 1e-3},
        {"expected_batch_size": 200},
        {"expected_batch_size": 1},
        {"steps": 1},
        {"local_algorithm": "fedprox", "pull": 2.0},
        {"clipping": "automatic"},
    ],
    ids=str,
)
def test_no_honest_update_is_longer(changes):
    plan = replace(PLAN, **changes)
    rng = np.random.default_rng(7)
    longest = max(steepest(plan, 200, 50, rng) for _ in range(300))
    assert longest <= bound(plan)
    if plan.learning_rate == PLAN.learning_rate and plan.local_algorithm == "fedavg":
        assert longest > bound(plan) / 12  # and the bound is not idle


@pytest.mark.parametrize("optimizer_state", ["reset", "keep"])
def test_nor_where_a_momentum_is_kept_over_rounds(optimizer_state):
    plan = replace(PLAN, steps=60, momentum=0.95, optimizer_state=optimizer_state)
    rng, weights, velocity = np.random.default_rng(3), np.zeros(50), np.zeros(50)
    for _ in range(5):
        before = weights.copy()
        for _ in range(plan.steps):
            drawn = rng.binomial(200, 0.1)
            noise = rng.normal(size=50) * 1.3 * 0.8
            velocity = 0.95 * velocity + (drawn * 0.8 * np.ones(50) / math.sqrt(50) + noise) / 20
            weights = weights - 0.5 * velocity
        assert np.linalg.norm(weights - before) <= bound(plan)
        if optimizer_state == "reset":
            velocity = np.zeros(50)


def test_without_the_noises_surprise_the_bound_would_be_passed(monkeypatch):
    """The test above can fail: of one number and one step, noise alone passes a bound of its mean."""
    plan = replace(PLAN, steps=1, max_grad_norm=1.0, noise_multiplier=500.0, expected_batch_size=1)
    rng = np.random.default_rng(5)
    longest = max(steepest(plan, 200, 1, rng) for _ in range(2000))
    assert longest <= bound(plan, numbers=1)
    monkeypatch.setattr(module, "FAILURE", 2 * CHANCES)
    assert longest > bound(plan, numbers=1)


@pytest.mark.parametrize(
    "changes",
    [
        {"private": False},
        {"optimizer": "adam"},
        {"optimizer_settings": "nesterov = true"},
        {"local_algorithm": "mr-mtl", "pull": 0.1},
        {"local_algorithm": "fedprox", "pull": 0.1, "momentum": 0.5},
        {"local_algorithm": "fedprox", "pull": 3.0},
    ],
    ids=str,
)
def test_rounds_without_a_proven_bound_are_not_bounded(changes):
    plan = replace(PLAN, **changes)
    assert not is_bounded(plan)
    assert bound(plan) == math.inf


def test_rounding_of_large_weights_is_paid_for():
    """Steps of 0.04 on weights near a million, where float32 moves by 0.0625 or not at all."""
    length = 0.04 * math.sqrt(50)
    plan = replace(
        PLAN,
        steps=1000,
        learning_rate=1.0,
        max_grad_norm=length,
        noise_multiplier=1e-3,
        expected_batch_size=200,
    )
    start = torch.full((50,), 9.9e5)
    weights = start.clone()
    for _ in range(plan.steps):
        weights += 0.04
    way = float((weights.double() - start.double()).norm())
    assert bound(plan) < way <= bound(plan, start=float(start.double().norm()))


@pytest.mark.parametrize("rate", [0.5, 1e38])
def test_nor_is_a_real_clients(real_client, rate):
    client = real_client(epsilon=1e6)
    plan = replace(PLAN, learning_rate=rate, momentum=0.9, noise_multiplier=0.5, max_grad_norm=1.0)
    start = state_arrays(client.model)
    length = math.sqrt(sum(float(np.linalg.norm(array)) ** 2 for array in start.values()))
    most = bound(plan, size=100, numbers=sum(array.size for array in start.values()), start=length)
    for number in range(1, 5):
        update = client.train(replace(plan, server_round=number))
        ways = [np.linalg.norm(update.arrays[name].astype(float) - start[name]) for name in start]
        assert 0 < np.linalg.norm(ways) <= most
