"""A simulated federation: the server runs in this process, the clients in Ray's processes."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict

import torch
from flwr.supercore.task_identity import TaskIdentity

from fl_dp.accounting.accountant import find_accountant
from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.errors import ExitCode, FlDpError
from fl_dp.federation.client.payment import CLIENTS_LOGGER
from fl_dp.federation.server.run import run_federation
from fl_dp.federation.wire.arrays import NDArray
from fl_dp.launch.clients import client_config
from fl_dp.launch.logs import causes_in, log_files
from fl_dp.launch.outcome import conclude, failure_of
from fl_dp.launch.processes import cores
from fl_dp.launch.progress_grid import ProgressGrid
from fl_dp.launch.progress_reporter import ProgressReporter
from fl_dp.launch.ray_ahead import RayAhead
from fl_dp.launch.resumption import Launch
from fl_dp.records import Entry
from fl_dp.reporting.reports import RoundReport
from fl_dp.reporting.run_folder import SERVER_LOG, RunFolder
from fl_dp.reporting.run_results import append_line, write_statements
from fl_dp.reporting.tracking import tracking
from fl_dp.reporting.wording import in_lines
from fl_dp.simulation import local_figures
from fl_dp.simulation.cluster.resources import Node, share
from fl_dp.simulation.session import KeptActors, Simulation, forget_run, name_in_ledger, simulated_grid
from fl_dp.simulation.work import RoundWork
from fl_dp.statements import Stated
from fl_dp.weights_digest import weights_digest

WORK = "simulation.jsonl"
CLIENTS_LOG = "clients"
_ANY, _ANY_DELTA = Entry(0.01, 1.0, 1), 0.1


def check_room(config: RunConfig) -> None:
    """Raise ConfigError if this machine simulates alone and has no room for one client."""
    share(config, [Node(cores(), torch.cuda.device_count(), 0)])


def simulate(
    config: RunConfig,
    folder: RunFolder,
    start: Launch,
    ray: RayAhead,
    tell: ProgressReporter,
    *,
    resumed: bool,
    quiet: bool = False,
) -> ExitCode:
    """Run the federation; FlDpError when it fails. resumed: as in `run_federation`. quiet: no table."""

    def on_kept(server_round: int) -> None:
        grid.erase_keys(run, server_round)

    def on_round(report: RoundReport) -> None:
        tell.round_over(report)
        tracked.round_over(report)

    def on_model(arrays: Mapping[str, NDArray]) -> None:
        stated = Stated(grid.statement(run, weights_digest(arrays)).to_text())  # the clients have no keys
        write_statements(folder, [stated])

    client = client_config(config, 0, start.ledgers, one_run=start.one_run_ledger)
    simulation = Simulation(config, client, folder.clients, _noting(folder, tell))
    # a separate log for the clients: a traceback of theirs may quote their data
    logs = {"fl_dp": folder.log(SERVER_LOG), CLIENTS_LOGGER: folder.log(CLIENTS_LOG)}
    with ExitStack() as stack:
        stack.enter_context(log_files(logs))
        causes = stack.enter_context(causes_in(CLIENTS_LOGGER))
        tell.doing("starting Ray")
        find_accountant(config.accountant).compute((_ANY,), _ANY_DELTA)  # its late imports, while Ray starts
        ray.wait()
        first = f"computing features {config.features}, " if config.features else ""
        tell.doing(f"{first}handing the data to Ray and starting its processes")
        ray.kept = ray.kept or KeptActors()
        grid = stack.enter_context(simulated_grid(simulation, ray.kept))
        _take_identity()
        run, flat = name_in_ledger(simulation), config.to_flat()
        tracked = stack.enter_context(tracking(config, folder, tell.say))
        shown = ProgressGrid(grid, config, tell, counts=False)
        failure = failure_of(
            lambda: run_federation(
                shown,
                flat,
                run,
                folder.path,
                on_round,
                resumed=resumed,
                by_seed=True,
                on_kept=on_kept,
                on_model=on_model,
                say=tell.say,
            )
        )
        tell.doing("stopping Ray's processes")
    if failure is None:
        forget_run(folder.clients, config)
    with tell.aside():
        code = conclude(failure, folder, tell.say, quiet=quiet, causes=causes.words)
    if start.local_figures:
        _measure_locally(config, client, folder, tell)
    return code


def _measure_locally(
    config: RunConfig, client: ClientConfig, folder: RunFolder, tell: ProgressReporter
) -> None:
    """The run is over: what fails here does not undo it."""
    tell.doing("measuring each client's model on its held-out records")
    try:
        found = local_figures.measure(config, client, folder)
    except FlDpError as error:
        tell.say(f"no local figures: {error}")
        return
    local_figures.write(found, folder)
    for line in local_figures.words(found, config):
        tell.say(in_lines(line))


def _noting(folder: RunFolder, tell: ProgressReporter) -> Callable[[RoundWork], None]:
    """Shows the progress of a round, and appends a line to simulation.jsonl at its end."""

    def on_work(work: RoundWork) -> None:
        speed = work.records / work.seconds if work.seconds else 0.0
        tell.worked(work.over, speed)
        if work.ended:
            append_line(folder.path / WORK, asdict(work))

    return on_work


def _take_identity() -> None:
    """Give this process a node id: every Flower message names its sender.

    In Flower's own processes its server assigns it.
    """
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
