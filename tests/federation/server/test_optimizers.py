"""Each optimizer of the server against its definition, number by number; and what it remembers."""

import math

import numpy as np
import pytest

from fl_dp.errors import ConfigError
from fl_dp.federation.server.optimizers import FedAdagrad, FedAdam, FedAvg, FedAvgM, FedYogi

RATE = 0.3
OLD = {"w": np.float32([1.0, -2.0, 1e-8])}
NEW = {"w": np.float32([3.0, -3.0, 1e8])}


def test_at_the_usual_rate_the_average_is_taken_to_the_last_bit():
    assert FedAvg.usual_learning_rate == 1.0
    np.testing.assert_array_equal(FedAvg(1.0).step(OLD, NEW)["w"], NEW["w"])


def test_of_fedavgm_every_number_goes_as_the_paper_says():
    targets = np.random.default_rng(0).normal(size=(6, 2))
    optimizer, weights = FedAvgM(RATE), {"w": np.array([0.0, 5.0])}
    for target in targets:
        weights = optimizer.step(weights, {"w": target})
    for place, x in enumerate([0.0, 5.0]):
        v = 0.0
        for target in targets[:, place]:
            v = 0.9 * v + (target - x)
            x = x + RATE * v
        assert weights["w"][place] == pytest.approx(x, abs=1e-12)


def _by_hand(x, targets, second):
    """One number: algorithm 2 of Reddi et al. with beta 0.9 and 0.99 and tau 0.001."""
    m = v = 0.0
    for target in targets:
        delta = target - x
        m = 0.9 * m + 0.1 * delta
        v = second(v, delta**2)
        x = x + RATE * m / (math.sqrt(v) + 1e-3)
    return x


@pytest.fixture
def targets():
    return list(np.random.default_rng(0).normal(size=(6, 2, 2)))


def _run(optimizer, weights, targets):
    for target in targets:
        weights = optimizer.step(weights, {"w": target})
    return weights


@pytest.mark.parametrize(
    ("kind", "second"),
    [
        (FedAdam, lambda v, square: 0.99 * v + 0.01 * square),
        (FedAdagrad, lambda v, square: v + square),
        (FedYogi, lambda v, square: v - 0.01 * square * np.sign(v - square)),
    ],
)
def test_of_fedadam_and_its_kin_every_number_goes_as_the_paper_says(targets, kind, second):
    start = np.array([[0.0, 1.0], [-2.0, 5.0]])
    found = _run(kind(RATE), {"w": start}, targets)["w"]
    for place in np.ndindex(2, 2):
        expected = _by_hand(start[place], [t[place] for t in targets], second)
        assert found[place] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("kind", [FedAdam, FedAvgM])
def test_it_goes_on_from_its_state_as_if_it_had_not_been_ended(kind, targets):
    start = {"w": np.zeros((2, 2), np.float32)}
    straight = _run(kind(RATE), start, targets)
    first, second = kind(RATE), kind(RATE)
    half = _run(first, start, targets[:3])
    second.restore(first.state())
    np.testing.assert_array_equal(_run(second, half, targets[3:])["w"], straight["w"])
    assert not np.allclose(_run(kind(RATE), half, targets[3:])["w"], straight["w"])


@pytest.mark.parametrize(
    ("kind", "state", "words"),
    [
        (FedAdam, "momentum of w", "FedAdam, expected first moment and second moment of each array"),
        (FedAdam, "first moment of w", "expected first moment and second moment of each array"),
        (FedAvgM, "first moment of w", "expected velocity of each array"),
        (FedAvg, "velocity of w", "expected nothing of each array"),
    ],
)
def test_a_state_that_is_not_its_own_is_refused(kind, state, words):
    with pytest.raises(ConfigError, match=words):
        kind(RATE).restore({state: np.zeros(2)})
