"""A federation in Flower's own Ray simulation: in one process, and with no port open to others."""

import sys
import time
from pathlib import Path
from typing import Any

from fl_dp.config.flat import AUTO
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.federation.client.settings import TEMPLATE_VARIABLE
from fl_dp.federation.server.app import RESUMED_VARIABLE
from fl_dp.launch.clients import write_client_template
from fl_dp.launch.environment import child_environment, cores, thread_settings
from fl_dp.launch.exit_codes import ExitCode
from fl_dp.launch.outcome import RunEnd, conclude
from fl_dp.launch.processes import Processes, ended
from fl_dp.launch.progress_reporter import ProgressReporter
from fl_dp.launch.resumption import Launch
from fl_dp.reporting.run_files import Run
from fl_dp.reporting.run_folder import SERVER_LOG, RunFolder
from fl_dp.reporting.tracking import tracking

_POLL_SECONDS = 0.3


def simulate_with_flower(
    config: RunConfig, folder: RunFolder, start: Launch, tell: ProgressReporter, *, resumed: bool
) -> ExitCode:
    """All clients in Flower's Ray simulation; FlDpError when it fails."""
    template = write_client_template(config, folder.clients, start.ledgers, one_run=start.one_run_ledger)
    with Processes() as processes, tracking(config, folder, tell.say) as tracked:
        more = simulation_environment(config, template, processes.scratch)
        if resumed:
            more[RESUMED_VARIABLE] = "1"
        env = child_environment(folder.flower_home, threads=cores(), more=more)
        command = [sys.executable, "-P", "-m", "fl_dp.launch.flower.simulation_process", str(folder.path)]
        processes.start(SERVER_LOG, command, env, folder.log(SERVER_LOG))
        tell.doing("Flower's simulation is running; it reports each round at its end")
        run, code = Run(folder), None
        while code is None:
            code = processes.exit_code(SERVER_LOG)  # asked first: once it has ended, its last line is there
            for record in run.new_rounds():
                tell.round_over(record)
                tracked.round_over(record)
            time.sleep(_POLL_SECONDS)
        tracked.completed = code == 0
    end = RunEnd(completed=code == 0, details="" if code == 0 else f"It {ended(code)}.")
    with tell.aside():
        return conclude(end, folder, tell.say)


def clients_at_once(config: RunConfig, available: int) -> int:
    """Simulated clients that fit on `available` cores; ConfigError if not even one does."""
    at_once = int(available * _per_core(config))
    if at_once < 1:
        raise ConfigError(f"clients-per-cpu = {config.clients_per_cpu}: this machine has {available} cores.")
    return min(at_once, config.clients)


def check_resources(config: RunConfig) -> None:
    """Raise ConfigError if this machine lacks what a single simulated client needs."""
    clients_at_once(config, cores())
    if config.clients_per_gpu != AUTO:
        import torch

        if not torch.cuda.is_available():
            raise ConfigError(f"clients-per-gpu = {config.clients_per_gpu}: this machine has no usable GPU.")


def backend_settings(config: RunConfig) -> dict[str, Any]:
    """Flower's Ray settings for `config` on this machine's cores.

    Flower accepts only whole cores per client. For Ray a core is only a unit of accounting, so here it stands
    for one client: Ray gets as many as clients may run at once. "auto" is one client per core and no GPU,
    because what fits on a GPU is not measured here.
    """
    gpus = 0.0 if config.clients_per_gpu == AUTO else 1 / float(config.clients_per_gpu)
    return {
        "init_args": {"num_cpus": clients_at_once(config, cores())},
        "client_resources": {"num_cpus": 1, "num_gpus": gpus},
    }


def simulation_environment(config: RunConfig, template: Path, ray_folder: Path) -> dict[str, str]:
    """The environment of the simulation's processes; Ray's workers inherit it.

    ray_folder: where Ray keeps its sockets, for this launch alone. Its path must be short: a socket's path is
    limited to 107 characters.
    """
    return {
        TEMPLATE_VARIABLE: str(template),
        "RAY_TMPDIR": str(ray_folder),
        "RAY_ADDRESS": "",
        **thread_settings(max(1, int(1 / _per_core(config)))),
    }


def _per_core(config: RunConfig) -> float:
    return 1.0 if config.clients_per_cpu == AUTO else float(config.clients_per_cpu)
