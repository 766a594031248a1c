"""An opened sum counts, however many did not come as far as the masks."""

import numpy as np
import pytest

from fl_dp.config.run import RunConfig
from fl_dp.federation.server.asking import Asked
from fl_dp.federation.server.client_record import ClientRecord
from fl_dp.federation.server.judging import Judged
from fl_dp.federation.server.replies import Verdict
from fl_dp.federation.server.secure_aggregating import SecureAggregating
from fl_dp.federation.wire.arrays import encode, specs
from fl_dp.federation.wire.partial_sums import WeightedSum
from fl_dp.records import ClientProfile, Entry, RoundPlan

START = {"w": np.zeros(2, np.float32)}
PLAN = RoundPlan("run", 1, "linear", 1, 10, 1.0, 0.0, 1.0, 1.0, shares=2)


def _aggregating(dropouts: int) -> SecureAggregating:
    config = RunConfig(
        clients=10, min_clients=10, fit_clients=10, aggregation="secure", secure_dropouts=dropouts
    )
    return SecureAggregating(config, specs(START))


def _opened(survivors: int, asked: int) -> Judged:
    profile = ClientProfile("one", 100, 3.0, 1e-5, (), "rdp", 0.0, False)
    client = ClientRecord(profile, 1, (), Entry(0.1, 1.0, 1))
    verdicts = {str(k): Verdict("trained", arrays={}) for k in range(survivors)}
    verdicts |= {str(k): Verdict("declined", "unpaid") for k in range(survivors, asked)}
    total = WeightedSum({"w": np.array([1, -1]) << 20}, float(survivors), shares=2, masked=True)
    summed = [Asked(client, client.mechanism, 1.0, None, True, PLAN)] * survivors
    return Judged(sums=[total], summed=summed, verdicts=verdicts)


@pytest.mark.parametrize(("dropouts", "survivors"), [(0, 9), (0, 3), (1, 8), (1, 3)])
def test_a_sum_that_was_opened_is_used_whoever_had_no_part_in_it(dropouts, survivors):
    """They have paid for nothing; those in the sum have, and their sum is there."""
    aggregating = _aggregating(dropouts)
    assert aggregating.aggregate(encode(START), _opened(survivors, 10)) is not None
    assert aggregating.lost == ""


@pytest.mark.parametrize(("dropouts", "least"), [(0, 3), (1, 4), (3, 8)])
def test_a_round_is_asked_of_as_many_as_can_make_a_sum(dropouts, least):
    """Of fewer none can be begun: a run in which so few have budget left is over, and has not failed."""
    assert _aggregating(dropouts).least_asked(10) == least
