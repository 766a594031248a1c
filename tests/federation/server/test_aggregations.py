"""Each aggregation against its definition; what stands behind its name is read, or refused."""

import numpy as np
import pytest

from fl_dp.choices import AGGREGATIONS
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError, FederationError
from fl_dp.federation.server import aggregation as module
from fl_dp.federation.server.aggregation import aggregation_of, check_aggregation
from fl_dp.federation.server.aggregations import Mean
from fl_dp.federation.wire.arrays import specs
from fl_dp.federation.wire.partial_sums import WeightedSum

START = {"w": np.zeros((2, 3), np.float32), "b": np.zeros(3, np.float32)}


def updates_of(count, seed=0, scale=1.0, offset=0.0):
    rng = np.random.default_rng(seed)

    def numbers(array):
        return np.float32(offset + scale * rng.normal(size=array.shape))

    return [({name: numbers(array) for name, array in START.items()}, 5.0) for _ in range(count)]


def lies(count):
    """As many hostile updates, half of them either way."""
    return [
        ({name: np.full_like(one, (-1e6) ** (1 + k % 2)) for name, one in START.items()}, 1e9)
        for k in range(count)
    ]


def combined(name, updates, sums=()):
    found = aggregation_of(name).combine(updates, sums, specs(START))
    assert {array.dtype for array in found.values()} == {np.dtype(np.float32)}
    return found


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


def test_a_mean_of_many_updates_loses_no_precision_on_the_way():
    updates = [
        ({"w": np.full((2, 3), 1 + i * 2**-23, np.float32), "b": START["b"]}, 7.0) for i in range(1000)
    ]
    expected = np.mean([update["w"].astype(np.float64) for update, _ in updates], axis=0)
    np.testing.assert_array_equal(combined("mean", updates)["w"], expected.astype(np.float32))


def test_a_partial_sum_counts_like_its_single_updates():
    weights = np.random.default_rng(0).integers(1, 1000, 10)
    pairs = [(update, float(w)) for (update, _), w in zip(updates_of(10), weights, strict=True)]
    parts = [
        WeightedSum(
            {name: sum(w * u[name].astype(np.float64) for u, w in some) for name in START},
            sum(w for _, w in some),
        )
        for some in (pairs[1:4], pairs[4:])
    ]
    together = combined("mean", pairs[:1], parts)
    np.testing.assert_allclose(together["w"], combined("mean", pairs)["w"], rtol=1e-6)


@pytest.mark.parametrize("count", [1, 3, 5, 8])
def test_the_median_is_the_middle_of_each_number_also_beside_one_that_lies(count):
    updates = [*updates_of(count - 1), *lies(1)]
    ordered = np.sort([update["w"] for update, _ in updates], axis=0)
    middle = (ordered[(count - 1) // 2].astype(float) + ordered[count // 2]) / 2
    np.testing.assert_allclose(combined("median", updates)["w"], middle, rtol=1e-6)


@pytest.mark.parametrize(("count", "malicious"), [(3, 1), (4, 1), (5, 2), (10, 3), (10, 1), (41, 20), (4, 0)])
def test_trimmed_mean_leaves_as_many_out_at_either_end(count, malicious):
    """Whatever they hold: as many as may be hostile lie here."""
    updates = [*updates_of(count - malicious), *lies(malicious)]
    ordered = np.sort([update["w"] for update, _ in updates], axis=0)
    expected = ordered[malicious : count - malicious].mean(axis=0)
    np.testing.assert_allclose(combined(f"trimmed-mean:{malicious}", updates)["w"], expected, rtol=1e-5)


@pytest.mark.parametrize(("count", "malicious"), [(5, 1), (7, 1), (7, 2), (9, 3), (3, 0)])
def test_krum_takes_the_update_nearest_to_its_neighbours(count, malicious):
    for seed in range(20):
        updates = updates_of(count, seed)
        found = combined(f"krum:{malicious}", updates)
        np.testing.assert_array_equal(flat_of(found), flat_of(updates[order_of(updates, malicious)[0]][0]))


@pytest.mark.parametrize(("count", "malicious"), [(5, 1), (9, 3), (3, 0)])
def test_multi_krum_is_the_mean_of_the_first(count, malicious):
    updates = updates_of(count, seed=4)
    found = combined(f"multi-krum:{malicious}", updates)
    first = order_of(updates, malicious)[: count - malicious]
    np.testing.assert_allclose(flat_of(found), np.mean([flat_of(updates[i][0]) for i in first], 0), rtol=1e-6)


@pytest.mark.parametrize(("count", "malicious"), [(7, 1), (9, 1), (11, 2), (3, 0)])
def test_bulyan_is_of_each_number_the_mean_of_those_near_the_median_of_what_krum_takes(count, malicious):
    updates = left = updates_of(count, seed=5)
    taken = []
    for _ in range(count - 2 * malicious):
        place = order_of(left, malicious)[0]
        taken.append(flat_of(left[place][0]))
        left = [one for i, one in enumerate(left) if i != place]
    expected = []
    for numbers in np.stack(taken).T:
        near = sorted(numbers, key=lambda one: abs(one - np.median(numbers)))
        expected.append(np.mean(near[: count - 4 * malicious]))
    np.testing.assert_allclose(flat_of(combined(f"bulyan:{malicious}", updates)), expected, rtol=1e-6)


def test_hostile_updates_are_not_taken_wherever_they_are():
    """Nor do they blind the distances between others: 0.01 beside a million, in double precision."""
    honest = updates_of(5, 1, scale=0.01, offset=3.0)
    for far in (1e6, -1e6, 4.0):
        updates = [*updates_of(2, 2, scale=abs(far) / 10, offset=far), *honest]
        first = order_of(updates, 2)[0]
        assert first >= 2
        np.testing.assert_array_equal(combined("krum:2", updates)["w"], updates[first][0]["w"])


@pytest.mark.parametrize("name", sorted(set(AGGREGATIONS.built_in()) - {"mean", "secure"}))
def test_aggregations_of_single_updates_refuse_sums(name):
    aggregation = aggregation_of(name)
    assert aggregation.needs_single_updates
    with pytest.raises(FederationError, match="needs each update by itself"):
        aggregation.combine([], [WeightedSum({"w": np.zeros((2, 3))}, 2.0)], specs(START))


@pytest.mark.parametrize(
    ("aggregation", "least"),
    [("trimmed-mean", 3), ("krum", 5), ("krum:2", 7), ("multi-krum", 5), ("bulyan", 7)],
)
def test_fewer_than_it_is_proven_for_are_refused(aggregation, least):
    def check(clients):
        check_aggregation(RunConfig(aggregation=aggregation, clients=clients, fit_clients=clients))

    check(least)
    words = f"a round needs {least} updates, and fit-clients = {least - 1} can never give them"
    with pytest.raises(ConfigError, match=words):
        check(least - 1)


@pytest.mark.parametrize(
    ("value", "words"), [("krum:two", "a number of clients"), ("median:1", "takes no argument")]
)
def test_an_argument_that_cannot_be_meant_is_refused(value, words):
    with pytest.raises(ConfigError, match=words):
        aggregation_of(value)


def test_an_argument_that_no_method_reads_is_refused(monkeypatch):
    """Left unread, a run would be of other numbers than its config says."""
    steps = type("Steps", (Mean,), {"argument": "STEPS"})
    monkeypatch.setattr(module, "chosen_class", lambda *asked: steps)
    with pytest.raises(ConfigError, match="'mean:7': Steps has no method `take` that reads STEPS"):
        aggregation_of("mean:7")
