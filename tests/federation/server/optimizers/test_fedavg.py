"""Federated averaging goes to the average, or a part of the way."""

import numpy as np

from fl_dp.federation.server.optimizers.fedavg import FedAvg

OLD = {"w": np.float32([1.0, -2.0, 1e-8])}
NEW = {"w": np.float32([3.0, -3.0, 1e8])}


def test_at_the_usual_rate_the_average_is_taken_to_the_last_bit():
    assert FedAvg.usual_learning_rate == 1.0
    np.testing.assert_array_equal(FedAvg(1.0).step(OLD, NEW)["w"], NEW["w"])
