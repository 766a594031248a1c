"""Federated averaging against its definition."""

import numpy as np

from fl_dp.federation.server.aggregations.mean import Mean
from fl_dp.federation.wire.arrays import specs
from fl_dp.federation.wire.partial_sums import WeightedSum


def _average(updates, weights, sums=()):
    return Mean().combine(list(zip(updates, weights, strict=True)), sums, specs(updates[0]))


def test_many_updates_lose_no_precision_on_the_way():
    updates = [{"w": np.full(3, 1 + i * 2**-23, np.float32)} for i in range(1000)]
    expected = np.mean([u["w"].astype(np.float64) for u in updates], axis=0)
    found = _average(updates, [7.0] * 1000)["w"]
    np.testing.assert_array_equal(found, expected.astype(np.float32))
    assert found.dtype == np.float32


def test_what_was_added_up_elsewhere_counts_as_if_it_had_come_alone():
    generator = np.random.default_rng(0)
    updates = [{"w": generator.normal(size=50).astype(np.float32)} for _ in range(10)]
    weights = [float(w) for w in generator.integers(1, 1000, 10)]
    pairs = list(zip(updates, weights, strict=True))
    parts = [
        WeightedSum({"w": sum(w * u["w"].astype(np.float64) for u, w in some)}, sum(w for _, w in some))
        for some in (pairs[1:4], pairs[4:])
    ]
    together = Mean().combine(pairs[:1], parts, specs(updates[0]))
    np.testing.assert_allclose(together["w"], _average(updates, weights)["w"], rtol=1e-6)
