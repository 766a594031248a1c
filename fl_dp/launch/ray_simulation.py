"""A simulated federation: the server runs in this process, the clients in Ray's processes."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from flwr.supercore.task_identity import TaskIdentity

from fl_dp.config.run import RunConfig
from fl_dp.federation.client.round import CLIENTS_LOGGER
from fl_dp.federation.server.app import run_federation
from fl_dp.federation.wire.arrays import NDArray
from fl_dp.launch.clients import client_config
from fl_dp.launch.exit_codes import ExitCode
from fl_dp.launch.logs import log_files
from fl_dp.launch.outcome import conclude, tried
from fl_dp.launch.ray_ahead import RayAhead
from fl_dp.reporting.console import round_line
from fl_dp.reporting.progress import RoundBar
from fl_dp.reporting.reports import RoundReport
from fl_dp.reporting.run_folder import SERVER_LOG, RunFolder
from fl_dp.reporting.run_results import append_line, write_statements
from fl_dp.simulation.session import Simulation, forget_run, name_in_ledger, simulated_grid
from fl_dp.simulation.work import RoundWork
from fl_dp.statements import Stated
from fl_dp.weights_digest import weights_digest

WORK = "simulation.jsonl"
CLIENTS_LOG = "clients"


def simulate(
    config: RunConfig,
    folder: RunFolder,
    ledgers: Path,
    ray: RayAhead,
    say: Callable[[str], None],
    *,
    resumed: bool,
    quiet: bool = False,
) -> ExitCode:
    """Run the federation; FlDpError when it fails. resumed: as in `run_federation`. quiet: no bar, no
    table.
    """
    bar = RoundBar(quiet=quiet)

    def on_kept(server_round: int) -> None:
        grid.erase_keys(run, server_round)

    def on_round(report: RoundReport) -> None:
        bar.clear()
        say(round_line(report.to_dict(), rounds=config.rounds, budget=config.epsilon))

    def on_work(work: RoundWork) -> None:
        speed = work.records / work.seconds if work.seconds else 0.0
        bar.show(work.server_round, work.over, work.clients, speed)
        if work.ended:
            bar.clear()
            append_line(folder.path / WORK, asdict(work))

    simulation = Simulation(config, client_config(config, 0, ledgers), folder.clients, on_work)
    with ExitStack() as stack:
        # a log of their own for the clients: a traceback of theirs may quote their data
        stack.enter_context(
            log_files({"fl_dp": folder.log(SERVER_LOG), CLIENTS_LOGGER: folder.log(CLIENTS_LOG)})
        )
        stack.callback(bar.clear)
        ray.wait()
        grid = stack.enter_context(simulated_grid(simulation))
        _take_identity()
        run, flat = name_in_ledger(simulation), config.to_flat()

        def on_model(arrays: Mapping[str, NDArray]) -> None:
            stated = Stated(grid.state(run, weights_digest(arrays)).to_text())  # the clients have no keys
            write_statements(folder, [stated])

        end = tried(
            lambda: run_federation(
                grid, flat, run, folder.path, on_round,
                resumed=resumed, on_kept=on_kept, on_model=on_model,
            )
        )  # fmt: skip
    if end.completed:
        forget_run(folder.clients, config)
    return conclude(end, folder, say, quiet=quiet)


def _take_identity() -> None:
    """Give this process an identity: every message of Flower's names its sender.

    In Flower's own processes its server gives it.
    """
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
