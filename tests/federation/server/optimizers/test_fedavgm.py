"""FedAvgM against its definition, number by number."""

import numpy as np
import pytest

from fl_dp.federation.server.optimizers.fedavgm import FedAvgM

RATE = 0.3


def test_every_number_goes_as_the_paper_says():
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


def test_its_first_step_is_the_average():
    weights = {"w": np.array([1.0, 2.0], np.float32)}
    found = FedAvgM(FedAvgM.usual_learning_rate).step(weights, {"w": np.array([3.0, 5.0], np.float32)})["w"]
    assert found.tolist() == [3.0, 5.0]
    assert found.dtype == np.float32
