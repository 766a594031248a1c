"""FedYogi against its definition, number by number."""

import math

import numpy as np
import pytest

from fl_dp.federation.server.optimizers.fedyogi import FedYogi

RATE = 0.3


def test_every_number_goes_as_the_paper_says():
    targets = np.random.default_rng(0).normal(size=(6, 3))
    optimizer, weights = FedYogi(RATE), {"w": np.array([0.0, 1.0, -2.0])}
    for target in targets:
        weights = optimizer.step(weights, {"w": target})
    for place, start in enumerate([0.0, 1.0, -2.0]):
        x, m, v = start, 0.0, 0.0
        for target in targets[:, place]:
            delta = target - x
            m = 0.9 * m + 0.1 * delta
            v = v - 0.01 * delta**2 * np.sign(v - delta**2)
            x = x + RATE * m / (math.sqrt(v) + 1e-3)
        assert weights["w"][place] == pytest.approx(x, abs=1e-12)
