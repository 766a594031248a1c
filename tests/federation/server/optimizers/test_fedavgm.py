"""FedAvgM against its definition, number by number; and what it remembers."""

import numpy as np
import pytest

from fl_dp.errors import ConfigError
from fl_dp.federation.server.optimizers.fedavgm import FedAvgM

RATE = 0.3


def _run(optimizer, weights, targets):
    for target in targets:
        weights = optimizer.step(weights, {"w": target})
    return weights


@pytest.fixture
def targets():
    return list(np.random.default_rng(0).normal(size=(6, 2)))


def test_every_number_goes_as_the_paper_says(targets):
    found = _run(FedAvgM(RATE), {"w": np.array([0.0, 5.0])}, targets)["w"]
    for place, start in enumerate([0.0, 5.0]):
        x, v = start, 0.0
        for target in targets:
            v = 0.9 * v + (target[place] - x)
            x = x + RATE * v
        assert found[place] == pytest.approx(x, abs=1e-12)


def test_its_first_step_is_the_average():
    weights = {"w": np.array([1.0, 2.0], np.float32)}
    found = FedAvgM(FedAvgM.usual_learning_rate).step(weights, {"w": np.array([3.0, 5.0], np.float32)})["w"]
    assert found.tolist() == [3.0, 5.0]
    assert found.dtype == np.float32


def test_it_goes_on_from_its_state_as_if_it_had_not_been_ended(targets):
    start = {"w": np.zeros(2, np.float32)}
    straight = _run(FedAvgM(RATE), start, targets)
    first, second = FedAvgM(RATE), FedAvgM(RATE)
    half = _run(first, start, targets[:3])
    second.restore(first.state())
    np.testing.assert_array_equal(_run(second, half, targets[3:])["w"], straight["w"])
    assert not np.allclose(_run(FedAvgM(RATE), half, targets[3:])["w"], straight["w"])


def test_a_state_that_is_not_its_own_is_refused():
    with pytest.raises(ConfigError, match="expected a velocity of each array"):
        FedAvgM(RATE).restore({"first moment of w": np.zeros(2)})
