"""`fl-dp server`, which server.py also calls: serves one run to the sites of a federation.

Modules that import PyTorch or Flower, which takes a second, are imported after the quick checks.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from fl_dp.cli.arguments import naming_places, read_request
from fl_dp.cli.common import (
    DEFAULT_ADDRESS,
    DEFAULT_CONFIG,
    ConfigOption,
    OutOption,
    SetOption,
    TrackOption,
    command,
    loopback_keys,
    run_command,
    say,
)
from fl_dp.cli.kits import check_whose_kit
from fl_dp.cli.run import refuse_beside
from fl_dp.config.run import RunConfig
from fl_dp.durable_files import exclusive
from fl_dp.errors import ExitCode
from fl_dp.kits.kit import ServerKit
from fl_dp.kits.provision import loopback_server
from fl_dp.kits.roster import split_address
from fl_dp.launch.first_checks import check_first
from fl_dp.launch.launcher import CHECKING, write_config
from fl_dp.launch.progress_reporter import ProgressReporter, reporting_progress
from fl_dp.launch.request import RunRequest
from fl_dp.launch.resumption import check_served, check_unfinished, to_resume, write_kit
from fl_dp.reporting.run_folder import RunFolder, claim_folder
from fl_dp.reporting.run_results import forget_end
from fl_dp.reporting.tracking import check_trackers
from fl_dp.reporting.wording import in_lines

_ANYWHERE, _ANYWHERE_IPV6 = "0.0.0.0", "[::]"
_Served = Callable[[RunConfig, RunFolder], ExitCode]  # serves the run in its folder until it ends


def main() -> None:
    sys.exit(run_command(serve, sys.argv[1:], prog="server.py"))


@command()
def serve(
    context: typer.Context,
    kit: Annotated[
        Path | None, typer.Option(help="Folder of the server's kit, made by fl-dp provision.")
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            help=f"HOST:PORT to serve on [default: {DEFAULT_ADDRESS}; with a kit, all addresses at the "
            "kit's port]."
        ),
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    out: OutOption = None,
    settings: SetOption = None,
    track: TrackOption = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Resume the run in DIR, which this server began."),
    ] = None,
) -> int:
    """Run one federation whose sites join with `fl-dp client`.

    With a kit, the sites of its roster can join from any machine. Without one, only clients of the same user
    on this machine can join.
    """
    with reporting_progress(say) as tell:
        tell.doing(CHECKING)
        if resume is not None:
            check_served(RunFolder(resume.absolute()), kit)
        server = _kit(kit, address)
        host, port = _place(server, kit, address)

        def served(run: RunConfig, folder: RunFolder) -> ExitCode:
            from fl_dp.launch import serving

            kitted, resumed = kit is not None, resume is not None
            return serving.serve(run, folder, server, host, port, tell, security=kitted, resumed=resumed)

        if resume is not None:
            refuse_beside(context, "resume", "kit", "address")
            return _resume(RunFolder(resume.absolute()), tell, served)
        request = read_request(config, settings=settings or (), options={"track": track})
        return _begin(request, out, kit, (host, port), tell, served)


def _place(server: ServerKit, kit: Path | None, address: str | None) -> tuple[str, int]:
    """Where to serve: the given address; else this machine alone, or with a kit its port on all interfaces.

    All interfaces are those of IPv4, and of IPv6 too if the roster names such an address.
    """
    if kit is None:
        return split_address(address or DEFAULT_ADDRESS, "--address")
    places = [split_address(one, str(kit)) for one in server.roster.addresses]
    anywhere = _ANYWHERE_IPV6 if any(":" in host for host, _ in places) else _ANYWHERE
    return split_address(address or f"{anywhere}:{places[0][1]}", "--address")


def _begin(
    request: RunRequest,
    out: Path | None,
    kit: Path | None,
    place: tuple[str, int],
    tell: ProgressReporter,
    served: _Served,
) -> ExitCode:
    with naming_places(request):
        check_first(request.config, clients=False)
        from fl_dp.federation.link.listener import check_port
        from fl_dp.launch import preflight

        checked = preflight.preflight(request.config, clients=False, doing=tell.doing)
    check_port(*place)
    folder = claim_folder(out)
    for note in (*request.notes, *checked.notes):
        tell.say(in_lines(note))
    with exclusive(folder.lock):
        run = write_config(checked.config, folder)
        if kit is not None:
            write_kit(folder, kit)
        tell.run(run, folder)
        return served(run, folder)


def _kit(kit: Path | None, address: str | None) -> ServerKit:
    """The named kit, or that of this machine's own federation; ConfigError if it does not fit."""
    if kit is not None:
        check_whose_kit(kit, server=True)
        return ServerKit.load(kit)
    host, port = split_address(address or DEFAULT_ADDRESS, "--address")
    return loopback_server(loopback_keys(host, port), port)


def _resume(folder: RunFolder, tell: ProgressReporter, served: _Served) -> ExitCode:
    """Resume the run after its last completed round."""
    with exclusive(folder.lock):
        check_unfinished(folder)
        config, state = to_resume(folder)
        check_trackers(config.track_names)
        from fl_dp.launch import preflight

        preflight.check_server(config)
        forget_end(folder)
        over = state.rounds if state else 0
        tell.run(config, folder, over)
        tell.say(f"resuming after round {over} of {config.rounds}; files in {folder.shown}")
        return served(config, folder)
