"""How `vary-mechanism` of a sweep reaches its simulated clients, and no others."""

import pytest

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.launch import ray_simulation
from fl_dp.launch.progress_reporter import ProgressReporter
from fl_dp.launch.resumption import Launch
from fl_dp.reporting.run_folder import RunFolder


def test_a_resumed_run_goes_on_with_it_and_a_damaged_one_is_refused(tmp_path):
    folder = RunFolder(tmp_path)
    for vary in (False, True):
        start = Launch("ray", tmp_path / "ledgers", "", vary)
        start.write(folder)
        assert Launch.read(folder) == start
    folder.launch.write_text(folder.launch.read_text().replace("true", '"yes"'))
    with pytest.raises(ConfigError, match="vary-mechanism is neither true nor false"):
        Launch.read(folder)


@pytest.mark.parametrize("vary", [True, False])
def test_simulated_clients_have_it_in_their_settings(tmp_path, vary, monkeypatch):
    seen = []

    def simulation(config, client, *_):
        seen.append(client)
        raise StopIteration

    monkeypatch.setattr(ray_simulation, "Simulation", simulation)
    start, tell = Launch("ray", tmp_path, "", vary), ProgressReporter(print, quiet=True)
    with pytest.raises(StopIteration):
        ray_simulation.simulate(RunConfig(), RunFolder(tmp_path), start, None, tell, resumed=False)
    assert seen[0].vary_mechanism is vary
