"""`fl-dp server`, which server.py calls as well: a port for the sites of a federation, and one run on it.

Flower is imported late, so that the other commands start without it.
"""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from fl_dp.config.run import RunConfig
from fl_dp.durable_files import exclusive
from fl_dp.errors import ExitCode
from fl_dp.launch.launcher import CHECKING, write_config
from fl_dp.launch.preflight import check_first, check_server, preflight
from fl_dp.launch.progress_reporter import ProgressReporter, reporting_progress
from fl_dp.launch.request import RunRequest
from fl_dp.launch.resumption import check_served, check_unfinished, to_resume, write_kit
from fl_dp.reporting.run_folder import RunFolder, claim_folder
from fl_dp.reporting.run_results import forget_end
from fl_dp.reporting.tracking import check_trackers
from fl_dp.reporting.wording import in_lines, roster_too_small, some

if TYPE_CHECKING:
    from fl_dp.kits.kit import ServerKit
    from fl_dp.launch.serving import Serving

_POLL_SECONDS = 0.5
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


def _place(server: "ServerKit", kit: Path | None, address: str | None) -> tuple[str, int]:
    """Where to serve: the given address, else this machine alone, or with a kit its port on all interfaces.

    All interfaces means IPv4 alone, unless the roster names an IPv6 address: then both.
    """
    from fl_dp.kits.roster import split_address

    if kit is None:
        return split_address(address or DEFAULT_ADDRESS, "--address")
    places = [split_address(one, str(kit)) for one in server.roster.addresses]
    anywhere = _ANYWHERE_IPV6 if any(":" in host for host, _ in places) else _ANYWHERE
    return split_address(address or f"{anywhere}:{places[0][1]}", "--address")


def _begin(
    request: RunRequest,
    out: Path | None,
    named: Path | None,
    kit: "ServerKit",
    host: str,
    port: int,
    tell: ProgressReporter,
) -> ExitCode:
    with naming_places(request):
        check_first(request.config, clients=False)
        checked = preflight(request.config, clients=False, doing=tell.doing)
    from fl_dp.federation.link.listener import check_port  # late: imports Flower

    check_port(host, port)
    folder = claim_folder(out)
    for note in (*request.notes, *checked.notes):
        tell.say(in_lines(note))
    with exclusive(folder.lock):
        run = write_config(checked.config, folder)
        if named is not None:
            write_kit(folder, named)
        tell.run(run, folder)
        return _serve(run, folder, kit, host, port, tell, security=named is not None, resumed=False)


def _kit(kit: Path | None, address: str | None) -> "ServerKit":
    """The named kit, or that of this machine's own federation; ConfigError if neither will do."""
    from fl_dp.kits.kit import ServerKit
    from fl_dp.kits.provision import loopback_server
    from fl_dp.kits.roster import split_address

    if kit is not None:
        check_whose_kit(kit, server=True)
        return ServerKit.load(kit)
    host, port = split_address(address or DEFAULT_ADDRESS, "--address")
    return loopback_server(loopback_keys(host, port), port)


def _resume(
    path: Path, named: Path | None, kit: "ServerKit", host: str, port: int, tell: ProgressReporter
) -> ExitCode:
    """Resume the run in the folder `path` after its last completed round."""
    folder = RunFolder(path.absolute())
    with exclusive(folder.lock):
        check_unfinished(folder)
        config, state = to_resume(folder)
        check_trackers(config.track_names)
        check_server(config)
        forget_end(folder)
        over = state.rounds if state else 0
        tell.run(config, folder, over)
        tell.say(f"resuming after round {over} of {config.rounds}; files in {folder.shown}")
        return _serve(config, folder, kit, host, port, tell, security=named is not None, resumed=True)


def _serve(
    config: RunConfig,
    folder: RunFolder,
    kit: "ServerKit",
    host: str,
    port: int,
    tell: ProgressReporter,
    *,
    security: bool,
    resumed: bool,
) -> ExitCode:
    from fl_dp.kits.kit import ending
    from fl_dp.launch.serving import serving

    for words in ending(kit):
        tell.say(words)
    with serving(kit, folder, host, port, security=security) as served:
        where = f"[{host}]" if ":" in host else host
        tell.say(f"serving {kit.roster.federation} on {where}:{served.port}; files in {folder.shown}")
        _wait_for_sites(config.min_clients, served, tell)
        return served.run(config, folder, tell, resumed=resumed)


def _wait_for_sites(least: int, served: "Serving", tell: ProgressReporter) -> None:
    """Return once `least` sites are connected, however long it takes; say who is missing since when."""
    from fl_dp.kits.provision import LOOPBACK

    since, said = time.strftime("%H:%M"), ""
    while len(here := served.sites_here()) < least:
        missing = [site.name for site in served.hub.roster.sites if site.name not in here]
        words = f"{len(here)} of {least} sites are connected" + (f": {', '.join(here)}" if here else "")
        if missing:
            words += f"; waiting for {some(missing)}"
        roster = served.hub.roster
        if roster.federation != LOOPBACK and (why := roster_too_small(len(roster.sites), least)):
            words += f"; {why}"
        if words != said:
            tell.say(f"{words} (since {since})")
            said = words
        tell.doing(words, said=True)  # repeated with the names
        served.look()
        time.sleep(_POLL_SECONDS)
