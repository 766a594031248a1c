"""Federated averaging against its definition."""

import numpy as np

from fl_dp.federation.aggregation import federated_average


def test_the_weighted_mean_in_the_arrays_own_type():
    updates = [{"w": np.array([0, 1], np.float32)}, {"w": np.array([4, 5], np.float32)}]
    average = federated_average(updates, [1, 3])
    np.testing.assert_array_equal(average["w"], [3, 4])
    assert average["w"].dtype == np.float32


def test_many_updates_lose_no_precision_on_the_way():
    updates = [{"w": np.full(3, 1 + i * 2**-23, np.float32)} for i in range(1000)]
    expected = np.mean([u["w"].astype(np.float64) for u in updates], axis=0)
    np.testing.assert_array_equal(federated_average(updates, [7.0] * 1000)["w"], expected.astype(np.float32))


def test_one_update_is_itself():
    array = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    np.testing.assert_array_equal(federated_average([{"w": array}], [12])["w"], array)
