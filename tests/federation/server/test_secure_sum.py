"""An opened sum counts, however many did not come as far as the masks."""

from dataclasses import replace

import numpy as np
import pytest

from fl_dp.config.run import RunConfig
from fl_dp.engine.noise.grid import noise_grid
from fl_dp.federation.server.ask import Asked
from fl_dp.federation.server.client_record import ClientRecord
from fl_dp.federation.server.secure_sum import SecureAggregator
from fl_dp.federation.server.verify import RoundResult, Verdict
from fl_dp.federation.wire.arrays import encode, specs
from fl_dp.federation.wire.partial_sums import WeightedSum
from fl_dp.records import ClientProfile, Entry, RoundPlan

START = {"w": np.zeros(2, np.float32)}
PLAN = RoundPlan("run", 1, "linear", 1, 10, 1.0, 0.0, 1.0, 1.0, shares=2)


def _aggregating(dropouts: int) -> SecureAggregator:
    config = RunConfig(clients=10, min_clients=10, fit_clients=10, aggregation=f"secure:{dropouts}")
    return SecureAggregator(config, specs(START))


def _opened(survivors: int, asked: int) -> RoundResult:
    profile = ClientProfile("one", 100, 3.0, 1e-5, (), "rdp", 0.0, False)
    client = ClientRecord(profile, 1, (), Entry(0.1, 1.0, 1))
    verdicts = {str(k): Verdict("trained", arrays={}) for k in range(survivors)}
    verdicts |= {str(k): Verdict("declined", "unpaid") for k in range(survivors, asked)}
    total = WeightedSum({"w": np.array([1, -1]) << 20}, float(survivors), shares=2, masked=True)
    summed = [Asked(client, client.mechanism, 1.0, None, True, PLAN)] * survivors
    return RoundResult(sums=[total], summed=summed, verdicts=verdicts)


@pytest.mark.parametrize(("dropouts", "survivors"), [(0, 9), (0, 3), (1, 3)])
def test_an_opened_sum_is_used_without_the_clients_that_missed_it(dropouts, survivors):
    """They have paid for nothing; those in the sum have, and their sum is there."""
    aggregating = _aggregating(dropouts)
    assert aggregating.aggregate(encode(START), _opened(survivors, 10)) is not None
    assert aggregating.lost == ""


@pytest.mark.parametrize(("dropouts", "least"), [(0, 3), (1, 4), (3, 8)])
def test_a_round_is_asked_of_as_many_as_can_make_a_sum(dropouts, least):
    """Fewer cannot begin a sum: a run in which so few have budget left is over, but has not failed."""
    assert _aggregating(dropouts).least_asked(10) == least


SPACING = noise_grid(1.0, 1.0 / np.sqrt(2), 2).spacing


def _after(*total: float) -> np.ndarray:
    """The new weights, from zeros, of three members' sum."""
    judged = _opened(3, 3)
    judged.sums[0] = replace(judged.sums[0], arrays={"w": np.round(np.array(total) / SPACING).astype(int)})
    new = _aggregating(0).aggregate(encode(START), judged)
    assert new is not None
    return new["w"].numpy()


def test_the_new_weights_are_one_step_along_the_sum_over_all_expected_records():
    """Three members with batches of 10, learning rate 1: w - sum / 30."""
    np.testing.assert_allclose(_after(3.0, -6.0), [-0.1, 0.2], rtol=1e-5)


def test_a_sum_longer_than_honest_members_can_make_is_brought_to_that_length():
    """Three clients of 100 records and C = 1 move it by 300 at most, and some noise."""
    long, longer = _after(1e4, 0.0), _after(1e6, 0.0)
    np.testing.assert_allclose(long, longer, rtol=1e-5)
    assert 1.0 < -long[0] * 30 < 330
    assert -_after(20.0, 0.0)[0] * 30 == pytest.approx(20, rel=1e-4)  # as it is


def test_a_round_whose_sum_was_not_opened_says_why():
    aggregating = _aggregating(0)
    verdicts = {"0": Verdict("declined", "unpaid"), "1": Verdict("failed", "Secure sum lost")}
    failed = RoundResult(verdicts=verdicts)
    assert aggregating.aggregate(encode(START), failed) is None
    assert (aggregating.lost, aggregating.opened) == ("Secure sum lost", None)


def test_a_sum_of_honest_noise_stays_as_it_is():
    """Nine shares of it are three times as long as one, and far longer than all records can make a sum."""
    start, plan = {"w": np.zeros(10_000, np.float32)}, replace(PLAN, noise_multiplier=100.0)
    config = RunConfig(clients=10, min_clients=10, fit_clients=10, aggregation="secure")
    deviation = noise_grid(1.0, 100.0 / np.sqrt(2), 10_000)
    noise = np.random.default_rng(1).normal(0.0, 3 * deviation.deviation, 10_000)
    judged = _opened(9, 9)
    total = np.round(noise / deviation.spacing).astype(np.int64)
    judged.sums[0] = WeightedSum({"w": total}, 9.0, shares=2, masked=True)
    judged.summed = [replace(one, plan=plan) for one in judged.summed]
    new = SecureAggregator(config, specs(start)).aggregate(encode(start), judged)
    assert new is not None
    np.testing.assert_allclose(new["w"].numpy(), -noise / 90, rtol=1e-4, atol=1e-4)


def test_a_sum_whose_members_do_not_show_their_payment_is_not_used():
    """Two of a sum of three: its noise is whole with three alone."""
    aggregating = _aggregating(0)
    assert aggregating.aggregate(encode(START), _opened(2, 3)) is None
    assert aggregating.lost.startswith("2 valid updates, 3 needed")
