import pytest

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.launch.ray_simulation import check_room


def test_a_machine_without_room_for_one_client_is_known_before_ray_runs(monkeypatch):
    monkeypatch.setattr("fl_dp.launch.ray_simulation.cores", lambda: 2)
    check_room(RunConfig(clients_per_cpu=0.5))
    with pytest.raises(ConfigError, match="a client needs 4 cores and 0 GPUs, and no machine has that many"):
        check_room(RunConfig(clients_per_cpu=0.25))
