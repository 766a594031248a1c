"""One federation on this machine, from a validated request to an exit code.

Flower is imported late: our own simulation needs none of it before Ray has begun to start.
"""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import tomli_w

from fl_dp.config.run import RunConfig
from fl_dp.durable_files import exclusive, write_whole
from fl_dp.launch.exit_codes import ExitCode
from fl_dp.launch.preflight import (
    check_choices,
    check_names,
    check_parts,
    check_server,
    with_absolute_paths,
)
from fl_dp.launch.ray_ahead import RayAhead, ray_ahead
from fl_dp.launch.request import Engine, Request
from fl_dp.launch.resumption import Launch, check_begun, check_unfinished, kept_config
from fl_dp.reporting.run_folder import Layout, claim_folder, forget_end

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
        from fl_dp.launch.flower.simulation import check_resources

        check_resources(request.config)
    check_names(request.config)
    with _under_way(engine, ray_address) as ray:
        check_choices(request.config)
        config = with_absolute_paths(request.config)
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
    from fl_dp.federation.server.run_record import kept_state

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
    from fl_dp.launch.deployment import deploy, simulate_with_flower

    go = simulate_with_flower if start.engine else deploy
    return go(config, layout, start.ledgers, say, resumed=resumed)


def write_config(config: RunConfig, layout: Layout) -> RunConfig:
    """`config` with its folder filled in, written to config.toml: what really runs."""
    config = dataclasses.replace(config, out=str(layout.out))
    write_whole(layout.config, lambda file: tomli_w.dump(config.to_flat(), file))
    return config
