"""Krum, against its definition."""

import numpy as np
import pytest

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.federation.server.aggregation import aggregation_of, check_aggregation
from fl_dp.federation.wire.arrays import specs

START = {"w": np.zeros((2, 3), np.float32), "b": np.zeros(3, np.float32)}


def updates_of(count, seed, scale=1.0, offset=0.0):
    rng = np.random.default_rng(seed)
    return [
        (
            {
                name: np.float32(offset + scale * rng.normal(size=array.shape))
                for name, array in START.items()
            },
            1.0,
        )
        for _ in range(count)
    ]


def flat_of(update):
    return np.concatenate([update[name].astype(float).ravel() for name in START])


def order_of(updates, malicious):
    """Places of the updates, that of the shortest distances to its neighbours first."""
    flat = [flat_of(update) for update, _ in updates]
    scores = []
    for own, one in enumerate(flat):
        others = sorted(((one - other) ** 2).sum() for i, other in enumerate(flat) if i != own)
        scores.append(sum(others[: max(1, len(flat) - malicious - 2)]))
    return np.argsort(scores)


def by_definition(updates, malicious):
    return updates[order_of(updates, malicious)[0]][0]


@pytest.mark.parametrize(("count", "malicious"), [(5, 1), (7, 1), (7, 2), (9, 3), (3, 0)])
def test_it_is_the_update_nearest_to_its_neighbours(count, malicious):
    for seed in range(20):
        updates = updates_of(count, seed)
        found = aggregation_of(f"krum:{malicious}").combine(updates, [], specs(START))
        expected = by_definition(updates, malicious)
        for name in START:
            np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize(("count", "malicious"), [(5, 1), (9, 3), (3, 0)])
def test_multi_krum_is_the_mean_of_the_first(count, malicious):
    updates = updates_of(count, seed=4)
    found = aggregation_of(f"multi-krum:{malicious}").combine(updates, [], specs(START))
    first = order_of(updates, malicious)[: count - malicious]
    np.testing.assert_allclose(flat_of(found), np.mean([flat_of(updates[i][0]) for i in first], 0), rtol=1e-6)


@pytest.mark.parametrize(("count", "malicious"), [(7, 1), (9, 1), (11, 2), (3, 0)])
def test_bulyan_is_of_each_number_the_mean_of_those_near_the_median_of_what_krum_takes(count, malicious):
    updates = left = updates_of(count, seed=5)
    found = aggregation_of(f"bulyan:{malicious}").combine(updates, [], specs(START))
    taken = []
    for _ in range(count - 2 * malicious):
        place = order_of(left, malicious)[0]
        taken.append(flat_of(left[place][0]))
        left = [one for i, one in enumerate(left) if i != place]
    expected = []
    for numbers in np.stack(taken).T:
        near = sorted(numbers, key=lambda one: abs(one - np.median(numbers)))
        expected.append(np.mean(near[: count - 4 * malicious]))
    np.testing.assert_allclose(flat_of(found), expected, rtol=1e-6)
    with pytest.raises(ConfigError, match="a round needs 7 updates"):
        check_aggregation(RunConfig(aggregation="bulyan", clients=6, fit_clients=6))


def test_hostile_updates_are_not_taken_wherever_they_are():
    """Nor do they blind the distances between others: 0.01 beside a million, in double precision."""
    honest = updates_of(5, 1, scale=0.01, offset=3.0)
    for far in (1e6, -1e6, 4.0):
        hostile = updates_of(2, 2, scale=abs(far) / 10, offset=far)
        found = aggregation_of("krum:2").combine([*hostile, *honest], [], specs(START))
        expected = by_definition([*hostile, *honest], 2)
        np.testing.assert_array_equal(found["w"], expected["w"])
        assert any(update["w"] is found["w"] or (update["w"] == found["w"]).all() for update, _ in honest)


def test_fewer_than_it_is_proven_for_are_refused():
    check_aggregation(RunConfig(aggregation="krum", clients=5, fit_clients=5))
    words = "beside 2 malicious clients a round needs 7 updates, fit-clients = 5 can never give them"
    with pytest.raises(ConfigError, match=words):
        check_aggregation(RunConfig(aggregation="krum:2", clients=5, fit_clients=5))
    for wrong, why in (("krum:two", "a number of clients"), ("median:1", "takes no argument")):
        with pytest.raises(ConfigError, match=why):
            check_aggregation(RunConfig(aggregation=wrong))
