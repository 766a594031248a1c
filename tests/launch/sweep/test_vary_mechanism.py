"""How `vary-mechanism` of a sweep reaches its simulated clients, and no others."""

from typing import Any

import pytest

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.launch import launcher, ray_simulation
from fl_dp.launch.progress_reporter import ProgressReporter
from fl_dp.launch.request import RunRequest
from fl_dp.launch.resumption import Launch
from fl_dp.reporting.run_folder import RunFolder


@pytest.mark.parametrize("vary", [True, False])
def test_a_resumed_run_goes_on_with_it(tmp_path, vary):
    start = Launch("ray", tmp_path / "ledgers", "", vary)
    start.write(RunFolder(tmp_path))
    assert Launch.read(RunFolder(tmp_path)) == start


def test_a_damaged_one_is_refused(tmp_path):
    folder = RunFolder(tmp_path)
    Launch("ray", tmp_path, "", True).write(folder)
    folder.launch.write_text(folder.launch.read_text().replace("true", '"yes"'))
    with pytest.raises(ConfigError, match="vary-mechanism is neither true nor false"):
        Launch.read(folder)


@pytest.mark.parametrize("vary", [True, False])
def test_simulated_clients_have_it_in_their_settings(tmp_path, vary, monkeypatch):
    seen: list[Any] = []

    class StopError(Exception):
        pass

    def simulation(config: RunConfig, client: Any, *_: Any) -> Any:
        seen.append(client)
        raise StopError

    monkeypatch.setattr(ray_simulation, "Simulation", simulation)
    start, no_ray = Launch("ray", tmp_path, "", vary), None
    with pytest.raises(StopError):
        ray_simulation.simulate(
            RunConfig(), RunFolder(tmp_path), start, no_ray, ProgressReporter(print), resumed=False
        )
    assert seen[0].vary_mechanism is vary


@pytest.mark.parametrize("engine", [None, "flower"])
def test_clients_with_settings_of_their_own_are_not_overruled(engine):
    request = RunRequest(RunConfig(), ())
    with pytest.raises(ConfigError, match="others have settings of their own"):
        launcher.launch(
            request,
            engine=engine,
            out=None,
            ledger=None,
            ray_address="",
            tell=ProgressReporter(print),
            vary_mechanism=True,
        )
