"""A federation in Flower's own processes on this machine: one per client, or its simulation."""

from collections.abc import Callable, Mapping
from pathlib import Path

from fl_dp.config.run import RunConfig
from fl_dp.federation.server.app import RESUMED_VARIABLE
from fl_dp.launch.clients import write_client_files, write_client_template
from fl_dp.launch.exit_codes import ExitCode
from fl_dp.launch.flower.app_bundle import build_bundle
from fl_dp.launch.flower.commands import write_client_commands, write_server_commands
from fl_dp.launch.flower.control import ControlClient
from fl_dp.launch.flower.environment import child_environment, cores
from fl_dp.launch.flower.processes import Processes
from fl_dp.launch.flower.simulation import simulation_environment, simulation_settings
from fl_dp.launch.flower.starting import (
    SUPERLINK,
    start_superlink,
    start_supernodes,
    supernode_options,
    wait_for_nodes,
)
from fl_dp.launch.outcome import conclude
from fl_dp.launch.watching import watch_run
from fl_dp.reporting.run_folder import SERVER_LOG, RunFolder

_HOST = "127.0.0.1"
Say = Callable[[str], None]


def server_environment(folder: RunFolder, more: Mapping[str, str]) -> dict[str, str]:
    """The environment of a SuperLink, whose apps log to the run's folder."""
    commands = write_server_commands(folder.commands / "server", folder.log(SERVER_LOG))
    return child_environment(folder.flower_home, commands, threads=cores(), more=more)


def deploy(config: RunConfig, folder: RunFolder, ledgers: Path, say: Say, *, resumed: bool) -> ExitCode:
    """One SuperLink and one SuperNode per client."""
    env = server_environment(folder, _resumption(resumed))
    with Processes() as processes:
        log = folder.log(SUPERLINK)
        address = start_superlink(processes, env, log, ["--insecure"], _HOST, 0)
        logs = _start_clients(config, folder, ledgers, processes, address)
        with ControlClient(address) as control:
            wait_for_nodes(control, config.clients, processes, {SUPERLINK: log, **logs})
            run_id = control.start_run(build_bundle(), config.to_flat(), None)
            status = watch_run(run_id, config, folder, control, processes, logs, say)
    return conclude(status, folder, say)


def simulate_with_flower(
    config: RunConfig, folder: RunFolder, ledgers: Path, say: Say, *, resumed: bool
) -> ExitCode:
    """All clients in Flower's Ray simulation."""
    template = write_client_template(config, folder.clients, ledgers)
    with Processes() as processes:
        simulation = simulation_environment(config, template, processes.scratch)
        env = server_environment(folder, {**simulation, **_resumption(resumed)})
        options = ["--insecure", "--simulation"]
        address = start_superlink(processes, env, folder.log(SUPERLINK), options, _HOST, 0)
        with ControlClient(address) as control:
            run_id = control.start_run(build_bundle(), config.to_flat(), simulation_settings(config))
            status = watch_run(run_id, config, folder, control, processes, (), say)
    return conclude(status, folder, say)


def _start_clients(
    config: RunConfig, folder: RunFolder, ledgers: Path, processes: Processes, address: str
) -> dict[str, Path]:
    """Start a SuperNode per client; returns their log files by process name."""
    commands = write_client_commands(folder.commands / "client")
    threads = max(1, cores() // config.clients)
    env = child_environment(folder.flower_home, commands, threads=threads)
    files = write_client_files(config, folder.clients, ledgers)
    logs = {f"client {file.stem}": folder.log(f"client-{file.stem}") for file in files}
    options = {name: supernode_options(file, address) for name, file in zip(logs, files, strict=True)}
    start_supernodes(processes, env, logs, options)
    return logs


def _resumption(resumed: bool) -> dict[str, str]:
    """The variable by which the server app knows that its run goes on; none for a new run."""
    return {RESUMED_VARIABLE: "1"} if resumed else {}
