"""FedAdam against its definition, number by number, over rounds; and what it remembers."""

import math

import numpy as np
import pytest

from fl_dp.errors import ConfigError
from fl_dp.federation.server.optimizers.fedadam import FedAdam
from fl_dp.federation.server.optimizers.fedavgm import FedAvgM

RATE = 0.3


def _by_hand(x, targets):
    """One number: algorithm 2 of Reddi et al. with beta 0.9 and 0.99 and tau 0.001."""
    m = v = 0.0
    for target in targets:
        delta = target - x
        m = 0.9 * m + 0.1 * delta
        v = 0.99 * v + 0.01 * delta**2
        x = x + RATE * m / (math.sqrt(v) + 1e-3)
    return x


@pytest.fixture
def targets():
    return list(np.random.default_rng(0).normal(size=(6, 2, 2)))


def _run(optimizer, weights, targets):
    for target in targets:
        weights = optimizer.step(weights, {"w": target})
    return weights


def test_every_number_goes_as_the_paper_says(targets):
    start = np.array([[0.0, 1.0], [-2.0, 5.0]])
    found = _run(FedAdam(RATE), {"w": start}, targets)["w"]
    for place in np.ndindex(2, 2):
        assert found[place] == pytest.approx(_by_hand(start[place], [t[place] for t in targets]), abs=1e-12)


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
        (FedAdam, "momentum of w", "expected two moments of each array"),
        (FedAdam, "first moment of w", "expected two moments of each array"),
        (FedAvgM, "first moment of w", "expected a velocity of each array"),
    ],
)
def test_a_state_that_is_not_its_own_is_refused(kind, state, words):
    with pytest.raises(ConfigError, match=words):
        kind(RATE).restore({state: np.zeros(2)})
