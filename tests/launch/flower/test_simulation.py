from pathlib import Path

import pytest

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.launch.environment import cores
from fl_dp.launch.flower.simulation import (
    backend_settings,
    check_resources,
    clients_at_once,
    simulation_environment,
)


@pytest.mark.parametrize(
    ("per_cpu", "available", "expected"),
    [("auto", 2, 2), (1.0, 2, 2), (2.0, 2, 4), (0.5, 2, 1), (0.7, 4, 2), (4.0, 8, 10)],
)
def test_clients_at_once_fill_the_cores_and_no_more(per_cpu, available, expected):
    assert clients_at_once(RunConfig(clients=10, clients_per_cpu=per_cpu), available) == expected


def test_a_client_larger_than_the_machine_and_a_gpu_that_is_not_there_are_refused(monkeypatch):
    with pytest.raises(ConfigError, match=r"clients-per-cpu = 0\.25: this machine has 2 cores"):
        clients_at_once(RunConfig(clients_per_cpu=0.25), 2)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ConfigError, match=r"clients-per-gpu = 4\.0: this machine has no usable GPU"):
        check_resources(RunConfig(clients_per_gpu=4.0))


def test_settings_and_environment():
    config = RunConfig(clients=50, clients_per_cpu=1.0, clients_per_gpu=4.0)
    assert backend_settings(config) == {
        "init_args": {"num_cpus": min(50, cores())},
        "client_resources": {"num_cpus": 1, "num_gpus": 0.25},
    }
    assert backend_settings(RunConfig())["client_resources"]["num_gpus"] == 0.0
    env = simulation_environment(config, Path("/out/simulation.toml"), Path("/tmp/x"))
    assert env["OMP_NUM_THREADS"] == "1"
    assert env["FL_DP_CLIENT_CONFIG"] == "/out/simulation.toml"
