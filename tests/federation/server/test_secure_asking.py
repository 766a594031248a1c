"""What members of one sum are asked for is one thing, whoever comes later."""

import numpy as np
import pytest

from fl_dp.config.run import RunConfig
from fl_dp.federation.secure_sum.wire import common_plan
from fl_dp.federation.server.registration import Registration, record_of
from fl_dp.federation.server.secure_asking import SecureAsking
from fl_dp.federation.wire.arrays import encode
from fl_dp.records import ClientProfile

WEIGHTS = encode({"w": np.zeros(2, np.float32)})


def _client(config: RunConfig, name: str, size: int, rounds: int):
    profile = ClientProfile(name, size, 3.0, 1e-5, (), "pld", 0.0, False, allow_secure_sum=True)
    return record_of(profile, config, int(name), rounds)


@pytest.mark.parametrize("copies", [1, 2])
def test_who_comes_later_with_fewer_records_changes_nothing_for_the_others(copies):
    """Each declines a sum whose largest rate is not its plan's: the one that draws more has no part in it."""
    config = RunConfig(
        clients=4, min_clients=3, fit_clients=4, aggregation="secure", clients_per_person=copies,
        expected_batch_size=64, noise_multiplier=3.0,
    )  # fmt: skip
    registration = Registration(config)
    sizes = {"1": (640, 1), "2": (640, 1), "3": (640, 1), "4": (128, 0)}
    registration.clients = {name: _client(config, name, *one) for name, one in sizes.items()}
    asking = SecureAsking(config, "run", registration, ["w"])
    asked = asking.ask(list(registration.clients.values()), 2, WEIGHTS, in_sum=True)
    assert len({common_plan(one.plan) for one in asked}) == 1
    assert {one.plan.most_rate for one in asked} == {0.1 if copies == 2 else 0.0}
