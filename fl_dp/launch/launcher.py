"""One federation on this machine, from a validated request to an exit code."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import tomli_w

from fl_dp.config import RunConfig
from fl_dp.federation.run_record import kept_state
from fl_dp.federation.server_app import RESUMED_VARIABLE
from fl_dp.launch.app_bundle import build_bundle
from fl_dp.launch.arguments import Engine, Request
from fl_dp.launch.clients import write_client_files, write_client_template
from fl_dp.launch.commands import write_client_commands, write_server_commands
from fl_dp.launch.control import ControlClient
from fl_dp.launch.environment import child_environment, cores
from fl_dp.launch.exit_codes import ExitCode
from fl_dp.launch.flower_simulation import check_resources, simulation_environment, simulation_settings
from fl_dp.launch.layout import SERVER_LOG, Layout, claim_folder
from fl_dp.launch.outcome import conclude
from fl_dp.launch.preflight import check_names, check_parts, check_server, with_absolute_paths
from fl_dp.launch.processes import Processes
from fl_dp.launch.ray_ahead import RayAhead, ray_ahead
from fl_dp.launch.resumption import Launch, check_begun, check_unfinished, kept_config
from fl_dp.launch.starting import (
    SUPERLINK,
    start_superlink,
    start_supernodes,
    supernode_options,
    wait_for_nodes,
)
from fl_dp.launch.watching import watch_run
from fl_dp.reporting.durable import exclusive, write_whole
from fl_dp.reporting.run_directory import forget_end

_HOST = "127.0.0.1"
Say = Callable[[str], None]


def launch(
    request: Request,
    *,
    engine: Engine | None,
    out: Path | None,
    ledger: Path | None,
    ray_address: str,
    say: Say,
) -> ExitCode:
    """Check everything, start Flower, watch the run, stop everything; FlDpError when it fails.

    engine: of a simulation; None for a process for each client. out: the run's folder, None for a new one;
    ledger: the folder of the clients' ledger, None for one below `out`. ray_address: of a cluster, empty for
    this machine alone.
    """
    if engine == "flower":
        check_resources(request.config)
    config = with_absolute_paths(request.config)
    check_names(config)
    with _under_way(engine, ray_address) as ray:
        check_server(config)
        notes = (*request.notes, *check_parts(config))
        layout = claim_folder(out)
        with exclusive(layout.lock):
            config = write_config(config, layout)
            for note in notes:
                say(note)
            say(f"{'simulating' if engine else 'starting'} {config.clients} clients; files in {layout.shown}")
            start = Launch(engine, (ledger or layout.ledgers).absolute(), ray_address)
            start.write(layout)
            return _run(config, layout, start, ray, say, resumed=False)


def resume(folder: Path, *, ray_address: str | None, say: Say) -> ExitCode:
    """Go on with the run in `folder` that was ended before it was over; FlDpError when it fails.

    ray_address: of a cluster, where it is another one now.
    """
    layout = Layout(folder.absolute())
    check_begun(layout)
    with exclusive(layout.lock):
        check_unfinished(layout)
        config, start, state = kept_config(layout), Launch.read(layout), kept_state(layout.out)
        if ray_address is not None:
            start = start.at(ray_address)
        if state:
            state.check_same(config)
        with _under_way(start.engine, start.ray_address) as ray:
            check_server(config)
            forget_end(layout.out)
            over = state.rounds if state else 0
            say(f"resuming after round {over} of {config.rounds}; files in {layout.shown}")
            return _run(config, layout, start, ray, say, resumed=True)


@contextmanager
def _under_way(engine: Engine | None, ray_address: str) -> Iterator[RayAhead | None]:
    """What takes long and can start before all is checked: Ray, for a simulation of our own."""
    if engine != "ray":
        yield None
        return
    with ray_ahead(ray_address) as ray:
        yield ray


def _run(
    config: RunConfig, layout: Layout, start: Launch, ray: RayAhead | None, say: Say, *, resumed: bool
) -> ExitCode:
    start.ledgers.mkdir(parents=True, exist_ok=True)
    if ray is not None:
        from fl_dp.launch.ray_simulation import simulate  # late: it imports torch and Ray

        return simulate(config, layout, start.ledgers, ray, say, resumed=resumed)
    go = _simulate_with_flower if start.engine else _deploy
    return go(config, layout, start.ledgers, {RESUMED_VARIABLE: "1"} if resumed else {}, say)


def write_config(config: RunConfig, layout: Layout) -> RunConfig:
    """`config` with its folder filled in, written to config.toml: what really runs."""
    config = dataclasses.replace(config, out=str(layout.out))
    write_whole(layout.config, lambda file: tomli_w.dump(config.to_flat(), file))
    return config


def server_environment(layout: Layout, more: Mapping[str, str]) -> dict[str, str]:
    """The environment of a SuperLink, whose apps log to the run's folder."""
    commands = write_server_commands(layout.commands / "server", layout.log(SERVER_LOG))
    return child_environment(layout.flower_home, commands, threads=cores(), more=more)


def _deploy(config: RunConfig, layout: Layout, ledgers: Path, more: Mapping[str, str], say: Say) -> ExitCode:
    """One SuperLink and one SuperNode per client. more: of the server's environment."""
    env = server_environment(layout, more)
    with Processes() as processes:
        log = layout.log(SUPERLINK)
        address = start_superlink(processes, env, log, ["--insecure"], _HOST, 0)
        logs = _start_clients(config, layout, ledgers, processes, address)
        with ControlClient(address) as control:
            wait_for_nodes(control, config.clients, processes, {SUPERLINK: log, **logs})
            run_id = control.start_run(build_bundle(), config.to_flat(), None)
            status = watch_run(run_id, config, layout, control, processes, logs, say)
    return conclude(status, layout, say)


def _start_clients(
    config: RunConfig, layout: Layout, ledgers: Path, processes: Processes, address: str
) -> dict[str, Path]:
    """Start a SuperNode per client; returns their log files by process name."""
    commands = write_client_commands(layout.commands / "client")
    threads = max(1, cores() // config.clients)
    env = child_environment(layout.flower_home, commands, threads=threads)
    files = write_client_files(config, layout.clients, ledgers)
    logs = {f"client {file.stem}": layout.log(f"client-{file.stem}") for file in files}
    options = {name: supernode_options(file, address) for name, file in zip(logs, files, strict=True)}
    start_supernodes(processes, env, logs, options)
    return logs


def _simulate_with_flower(
    config: RunConfig, layout: Layout, ledgers: Path, more: Mapping[str, str], say: Say
) -> ExitCode:
    """All clients in Flower's Ray simulation. more: of the server's environment."""
    template = write_client_template(config, layout.clients, ledgers)
    with Processes() as processes:
        simulation = simulation_environment(config, template, processes.scratch)
        env = server_environment(layout, {**simulation, **more})
        options = ["--insecure", "--simulation"]
        address = start_superlink(processes, env, layout.log(SUPERLINK), options, _HOST, 0)
        with ControlClient(address) as control:
            run_id = control.start_run(build_bundle(), config.to_flat(), simulation_settings(config))
            status = watch_run(run_id, config, layout, control, processes, (), say)
    return conclude(status, layout, say)
