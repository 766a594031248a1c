"""`fl-dp server`, which server.py calls as well: a port for the sites of a federation, and one run on it.

What brings PyTorch or Flower, for a second, is imported late: after the quick checks.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fl_dp.cli.arguments import naming_places, read_request
from fl_dp.cli.common import (
    DEFAULT_ADDRESS,
    DEFAULT_CONFIG,
    ConfigOption,
    SetOption,
    TrackOption,
    command,
    loopback_keys,
    run_command,
    say,
    with_track,
)
from fl_dp.cli.kits import check_whose_kit
from fl_dp.cli.run import refuse_beside
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
    out: Annotated[
        Path | None, typer.Option(help="Folder for results and logs [default: runs/<date-time>].")
    ] = None,
    settings: SetOption = None,
    track: TrackOption = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Resume the run in DIR, which this server began."),
    ] = None,
) -> int:
    """Run one federation whose sites join with `fl-dp client`.

    Only sites of the kit's roster can join, from this machine or others. Without a kit only clients of the
    same user on this machine can.
    """
    with reporting_progress(say) as tell:
        tell.doing(CHECKING)
        if resume is not None:
            check_served(RunFolder(resume.absolute()), kit)
        server = _kit(kit, address)
        host, port = _place(server, kit, address)
        if resume is not None:
            refuse_beside(context, "resume", "kit", "address")
            return _resume(resume, kit, server, host, port, tell)
        request = read_request(config, settings=with_track(settings, track))
        return _begin(request, out, kit, server, host, port, tell)


def _place(server: ServerKit, kit: Path | None, address: str | None) -> tuple[str, int]:
    """Where to serve: the given address, else this machine alone, or with a kit its port on all interfaces.

    All interfaces means IPv4 alone, unless the roster names an IPv6 address: then both.
    """
    if kit is None:
        return split_address(address or DEFAULT_ADDRESS, "--address")
    places = [split_address(one, str(kit)) for one in server.roster.addresses]
    anywhere = _ANYWHERE_IPV6 if any(":" in host for host, _ in places) else _ANYWHERE
    return split_address(address or f"{anywhere}:{places[0][1]}", "--address")


def _begin(
    request: RunRequest,
    out: Path | None,
    named: Path | None,
    kit: ServerKit,
    host: str,
    port: int,
    tell: ProgressReporter,
) -> ExitCode:
    with naming_places(request):
        check_first(request.config, clients=False)
        from fl_dp.federation.link.listener import check_port
        from fl_dp.launch import preflight, serving

        checked = preflight.preflight(request.config, clients=False, doing=tell.doing)
    check_port(host, port)
    folder = claim_folder(out)
    for note in (*request.notes, *checked.notes):
        tell.say(in_lines(note))
    with exclusive(folder.lock):
        run = write_config(checked.config, folder)
        if named is not None:
            write_kit(folder, named)
        tell.run(run, folder)
        return serving.serve(run, folder, kit, host, port, tell, security=named is not None, resumed=False)


def _kit(kit: Path | None, address: str | None) -> ServerKit:
    """The named kit, or that of this machine's own federation; ConfigError if neither will do."""
    if kit is not None:
        check_whose_kit(kit, server=True)
        return ServerKit.load(kit)
    host, port = split_address(address or DEFAULT_ADDRESS, "--address")
    return loopback_server(loopback_keys(host, port), port)


def _resume(
    path: Path, named: Path | None, kit: ServerKit, host: str, port: int, tell: ProgressReporter
) -> ExitCode:
    """Resume the run in the folder `path` after its last completed round."""
    folder = RunFolder(path.absolute())
    with exclusive(folder.lock):
        check_unfinished(folder)
        config, state = to_resume(folder)
        check_trackers(config.track_names)
        from fl_dp.launch import preflight, serving

        preflight.check_server(config)
        forget_end(folder)
        over = state.rounds if state else 0
        tell.run(config, folder, over)
        tell.say(f"resuming after round {over} of {config.rounds}; files in {folder.shown}")
        return serving.serve(config, folder, kit, host, port, tell, security=named is not None, resumed=True)
