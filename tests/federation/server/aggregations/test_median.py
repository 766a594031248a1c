"""The median of updates, number by number, and of nothing else."""

import numpy as np
import pytest

from fl_dp.choices import AGGREGATIONS
from fl_dp.errors import FederationError
from fl_dp.federation.server.aggregation import aggregation_of
from fl_dp.federation.server.aggregations.median import Median
from fl_dp.federation.wire.arrays import specs
from fl_dp.federation.wire.partial_sums import WeightedSum

START = {"w": np.zeros((2, 3), np.float32)}


def _updates(count):
    generator = np.random.default_rng(count)
    return [({"w": generator.normal(size=(2, 3)).astype(np.float32)}, 1.0) for _ in range(count)]


@pytest.mark.parametrize("count", [1, 3, 5, 8])
def test_it_is_the_middle_of_each_number_also_beside_one_that_lies(count):
    liar = ({"w": np.full((2, 3), 1e30, np.float32)}, 1e9)
    updates = [*_updates(count - 1), liar]
    found = Median().combine(updates, [], specs(START))["w"]
    for place in np.ndindex(2, 3):
        ordered = sorted(update["w"][place] for update, _ in updates)
        middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
        assert found[place] == pytest.approx(middle, rel=1e-6)
    assert found.dtype == np.float32


@pytest.mark.parametrize("name", sorted(set(AGGREGATIONS.built_in()) - {"mean", "secure"}))
def test_of_sums_there_is_none(name):
    aggregation = aggregation_of(name)
    assert aggregation.needs_single_updates
    with pytest.raises(FederationError, match="needs each by itself"):
        aggregation.combine([], [WeightedSum({"w": np.zeros((2, 3))}, 2.0)], specs(START))
