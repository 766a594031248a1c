"""The mean of what is left when as many values as may be hostile are left out at either end."""

import numpy as np
import pytest

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.federation.server.aggregation import aggregation_of, check_aggregation
from fl_dp.federation.wire.arrays import specs

START = {"w": np.zeros((2, 3), np.float32)}


def updates_of(count, seed=0):
    rng = np.random.default_rng(seed)
    return [({"w": rng.normal(size=(2, 3)).astype(np.float32)}, 5.0) for _ in range(count)]


@pytest.mark.parametrize(("count", "malicious"), [(3, 1), (4, 1), (5, 2), (10, 3), (10, 1), (41, 20), (4, 0)])
def test_as_many_are_left_out_at_either_end(count, malicious):
    """Whatever they hold: as many as may be hostile lie here, half of them either way."""
    lies = [({"w": np.full((2, 3), (-1e6) ** (1 + k % 2), np.float32)}, 1e9) for k in range(malicious)]
    updates = [*updates_of(count - malicious), *lies]
    found = aggregation_of(f"trimmed-mean:{malicious}").combine(updates, [], specs(START))["w"]
    ordered = np.sort([update["w"] for update, _ in updates], axis=0)
    np.testing.assert_allclose(found, ordered[malicious : count - malicious].mean(axis=0), rtol=1e-5)
    assert found.dtype == np.float32


def test_fewer_than_would_leave_one_are_refused():
    check_aggregation(RunConfig(aggregation="trimmed-mean", clients=3, fit_clients=3))
    with pytest.raises(ConfigError, match="a round needs 3 updates, fit-clients = 2"):
        check_aggregation(RunConfig(aggregation="trimmed-mean"))
