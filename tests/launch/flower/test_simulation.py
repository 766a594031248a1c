import sys
from pathlib import Path

import pytest
from run_records import record

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.launch.environment import cores
from fl_dp.launch.exit_codes import ExitCode
from fl_dp.launch.flower.simulation import (
    backend_settings,
    check_resources,
    clients_at_once,
    simulate_with_flower,
    simulation_environment,
)
from fl_dp.launch.processes import Processes
from fl_dp.launch.progress_reporter import ProgressReporter
from fl_dp.launch.resumption import Launch
from fl_dp.reporting.reports import ClientBudget, Summary
from fl_dp.reporting.run_folder import claim_folder
from fl_dp.reporting.run_results import RunResults, append_line


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


def test_each_round_that_flowers_process_writes_is_said_once(tmp_path, monkeypatch):
    """The process itself does nothing here."""
    folder, config, said = claim_folder(tmp_path / "run"), RunConfig(rounds=2), list[str]()
    start = Processes.start

    def write(self, name, command, env, log):
        for number in (1, 2):
            append_line(folder.rounds, record(number))
        client = ClientBudget(2.0, "pld", 3.0, 1e-5, 10, 2, 0, "trained")
        summary = Summary("completed", True, 2, 2.0, 1e-5, None, 0.9, 0.5, 9.0, {"0": client})
        RunResults(folder.path, resumed=True).write_summary(summary)
        start(self, name, [sys.executable, "-c", ""], env, log)

    monkeypatch.setattr(Processes, "start", write)
    tell = ProgressReporter(said.append, quiet=True)
    tell.run(config, folder)
    launched = Launch("flower", folder.ledgers, "")
    assert simulate_with_flower(config, folder, launched, tell, resumed=False) == ExitCode.TRAINED
    rounds = [line for text in said for line in text.splitlines() if line.startswith("round ")]
    assert [line.split("  ")[0] for line in rounds] == ["round 1/2", "round 2/2"]
