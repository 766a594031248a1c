from pathlib import Path

import pytest

from fl_dp.config import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.launch.environment import cores
from fl_dp.launch.simulation import (
    check_resources,
    clients_at_once,
    simulation_environment,
    simulation_settings,
)


@pytest.mark.parametrize(
    ("cpus", "available", "expected"),
    [(1.0, 2, 2), (0.5, 2, 4), (2.0, 2, 1), (1.5, 4, 2), (0.25, 8, 10)],
)
def test_clients_at_once_fill_the_cores_and_no_more(cpus: float, available: int, expected: int) -> None:
    assert clients_at_once(RunConfig(clients=10, client_cpus=cpus), available) == expected


def test_a_client_larger_than_the_machine_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"client-cpus = 4\.0: this machine has 2 cores"):
        clients_at_once(RunConfig(client_cpus=4.0), 2)


def test_more_gpus_than_there_are_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"client-gpus = 1000\.0: this machine has \d+ usable GPUs"):
        check_resources(RunConfig(client_gpus=1000.0))


def test_settings_and_environment() -> None:
    config = RunConfig(clients=50, client_cpus=1.0, client_gpus=0.25)
    settings = simulation_settings(config)
    assert settings.num_supernodes == 50
    assert settings.client_resources_num_gpus == 0.25
    assert settings.init_args_num_cpus == min(50, cores())
    env = simulation_environment(config, Path("/out/simulation.toml"), Path("/tmp/x"))
    assert env["OMP_NUM_THREADS"] == "1"
    assert env["FL_DP_CLIENT_CONFIG"] == "/out/simulation.toml"
