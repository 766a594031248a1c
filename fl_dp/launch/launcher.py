"""Runs one federation on this machine, from a validated request to an exit code.

What imports PyTorch, for a second, is imported late: after the quick checks, and while Ray starts.
"""

import dataclasses
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import tomli_w

from fl_dp.config.run import RunConfig
from fl_dp.durable_files import exclusive, private_folder, write_whole
from fl_dp.errors import ExitCode
from fl_dp.launch.first_checks import check_first
from fl_dp.launch.ledger_place import check_no_ledger_yet, check_one_choice, ledger_place, ledger_words
from fl_dp.launch.progress_reporter import ProgressReporter
from fl_dp.launch.ray_ahead import RayAhead
from fl_dp.launch.request import Engine, RunRequest
from fl_dp.launch.resumption import Launch, check_begun, check_unfinished, to_resume
from fl_dp.launch.session import ray_for_run
from fl_dp.reporting.run_folder import RunFolder, claim_folder
from fl_dp.reporting.run_results import forget_end
from fl_dp.reporting.tracking import check_trackers
from fl_dp.reporting.wording import counted, in_lines
from fl_dp.simulation.cluster.runtime import ray_is_there

CHECKING = "checking the settings; importing PyTorch"


def launch(
    request: RunRequest,
    *,
    engine: Engine | None,
    out: Path | None,
    ledger: Path | None,
    ray_address: str,
    tell: ProgressReporter,
    quiet: bool = False,
    one_run_ledger: bool = False,
    local_figures: bool | None = None,
) -> ExitCode:
    """Check everything, start the run, watch it, and stop everything; FlDpError if it fails.

    engine: what simulates the clients; None if each is a process of its own.
    out: the run's folder; None for a new one. ledger: the folder of the clients' ledger; None: see
    `ledger_place`. one_run_ledger: use one below `out`, whatever the data. ray_address: of a Ray cluster;
    empty if this machine alone simulates. tell: reports progress, and knows the run's folder afterwards.
    quiet: a simulation shows no table. local_figures: of a simulation, see `local_figures.wanted`.
    """
    tell.doing(CHECKING)
    request = request.simulated(engine)
    check_one_choice(ledger, one_run=one_run_ledger)
    check_first(request.config, clients=True)
    alone = engine is not None and not ray_address and not ray_is_there()
    with ExitStack() as held, _under_way(engine, ray_address) as ray:
        from fl_dp.launch import ledger_entry, preflight

        checked = preflight.preflight(request.config, clients=True, doing=tell.doing)
        config = checked.config
        figures = False
        if engine is not None:
            from fl_dp.simulation.local_figures import wanted  # PyTorch, too

            figures = wanted(config, local_figures)
        if alone:
            from fl_dp.launch.ray_simulation import check_room  # it imports Ray

            check_room(config)
        place = ledger_place(config, engine, ledger, one_run=one_run_ledger)
        preflight.check_ledgers(place.folder)
        if place.folder is None:
            check_no_ledger_yet(out)
        elif engine is None:
            held.enter_context(ledger_entry.entered(config, place.folder))
        folder = claim_folder(out)
        with exclusive(folder.lock):
            config = write_config(config, folder)
            tell.run(config, folder)
            doing = "simulating" if engine else "starting"
            first = f"{doing} {counted(config.clients, 'client')}; files in {folder.shown}"
            for line in (*request.notes, *checked.notes, first, place.line(folder)):
                tell.say(in_lines(line))
            ledgers = place.within(folder)
            start = Launch(engine, ledgers, ray_address, place.one_run, figures)
            start.write(folder)
            return _run(config, folder, start, ray, tell, resumed=False, quiet=quiet)


def resume(path: Path, *, ray_address: str | None, tell: ProgressReporter) -> ExitCode:
    """Resume the run in the folder `path`, which stopped before its end; FlDpError if it fails.

    ray_address: of the cluster, if its address has changed; else None.
    """
    folder = RunFolder(path.absolute())
    check_begun(folder)
    tell.doing(CHECKING)
    with exclusive(folder.lock):
        check_unfinished(folder)
        start, (config, state) = Launch.read(folder), to_resume(folder)
        if ray_address is not None:
            start = start.at(ray_address)
        check_trackers(config.track_names)
        with ExitStack() as held, _under_way(start.engine, start.ray_address) as ray:
            from fl_dp.launch import ledger_entry, preflight

            preflight.check_server(config)
            if start.engine is None and not start.one_run_ledger:
                held.enter_context(ledger_entry.entered(config, start.ledgers))
            forget_end(folder)
            over = state.rounds if state else 0
            tell.run(config, folder, over)
            tell.say(f"resuming after round {over} of {config.rounds}; files in {folder.shown}")
            tell.say(in_lines(ledger_words(start.ledgers, one_run=start.one_run_ledger)))
            return _run(config, folder, start, ray, tell, resumed=True)


@contextmanager
def _under_way(engine: Engine | None, ray_address: str) -> Iterator[RayAhead | None]:
    """Ray, started while the run is being checked; None unless it simulates."""
    if engine is None:
        yield None
        return
    with ray_for_run(ray_address) as ray:
        yield ray


def _run(
    config: RunConfig,
    folder: RunFolder,
    start: Launch,
    ray: RayAhead | None,
    tell: ProgressReporter,
    *,
    resumed: bool,
    quiet: bool = False,
) -> ExitCode:
    private_folder(start.ledgers)
    if ray is not None:
        from fl_dp.launch.ray_simulation import simulate

        return simulate(config, folder, start, ray, tell, resumed=resumed, quiet=quiet)
    from fl_dp.launch.deployment import deploy

    return deploy(config, folder, start, tell, resumed=resumed)


def write_config(config: RunConfig, folder: RunFolder) -> RunConfig:
    """Write the config that really runs to config.toml: `config` with its folder filled in; returns it."""
    config = dataclasses.replace(config, out=str(folder.path))
    write_whole(folder.config, lambda file: tomli_w.dump(config.to_flat(), file))
    return config
