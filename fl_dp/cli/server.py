"""`fl-dp server`, which server.py calls as well: one SuperLink that clients reach, and one run on it.

What needs Flower is imported late, so that the other commands start without it.
"""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fl_dp.cli.arguments import read_request
from fl_dp.cli.common import (
    APP_OPTIONS,
    DEFAULT_ADDRESS,
    DEFAULT_CONFIG,
    ConfigOption,
    SetOption,
    run_command,
    say,
)
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.launch.exit_codes import ExitCode
from fl_dp.launch.flower.app_bundle import build_bundle
from fl_dp.launch.flower.processes import Processes
from fl_dp.launch.flower.tls import AUTHORITY, SERVER_FILES, superlink_security
from fl_dp.launch.launcher import write_config
from fl_dp.launch.preflight import check_choices, check_names, check_server, with_absolute_paths
from fl_dp.reporting.run_folder import RunFolder, claim_folder

if TYPE_CHECKING:
    from fl_dp.launch.flower.control import ControlClient

_POLL_SECONDS = 1.0


def main() -> None:
    command = typer.Typer(**APP_OPTIONS)
    command.command()(serve)
    sys.exit(run_command(command, sys.argv[1:], prog="server.py"))


def serve(
    address: Annotated[
        str, typer.Option(help=f"HOST:PORT to serve on [default: {DEFAULT_ADDRESS}].", show_default=False)
    ] = DEFAULT_ADDRESS,
    config: ConfigOption = DEFAULT_CONFIG,
    out: Annotated[Path | None, typer.Option(help="Folder for results [default: runs/<date-time>].")] = None,
    settings: SetOption = None,
    certificates: Annotated[Path | None, typer.Option(help=f"Folder with {SERVER_FILES}, for TLS.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Serve without TLS.")] = False,
) -> int:
    """Run one federation whose clients join with `fl-dp client`, from this machine or others.

    Whoever reaches the address can start runs on this server: keep it inside a trusted network.
    """
    host, port = split_address(address)
    security = superlink_security(certificates, insecure)
    request = read_request(config, settings=settings or ())
    check_names(request.config)
    check_choices(request.config)
    run = with_absolute_paths(request.config)
    check_server(run)
    folder = claim_folder(out)
    for note in request.notes:
        say(note)
    return _serve(write_config(run, folder), folder, host, port, security, certificates)


def _serve(
    config: RunConfig, folder: RunFolder, host: str, port: int, security: list[str], certificates: Path | None
) -> ExitCode:
    from fl_dp.launch.deployment import server_environment
    from fl_dp.launch.flower.control import ControlClient
    from fl_dp.launch.flower.starting import SUPERLINK, start_superlink
    from fl_dp.launch.outcome import conclude
    from fl_dp.launch.watching import watch_run

    with Processes() as processes:
        env = server_environment(folder, {})
        log = folder.log(SUPERLINK)
        address = start_superlink(processes, env, log, security, host, port)
        say(f"serving on {address}; join with: fl-dp client --superlink {address}; in {folder.shown}")
        root = None if certificates is None else certificates / AUTHORITY
        reachable = address.replace("0.0.0.0", "127.0.0.1")  # "every interface" is no address to call
        with ControlClient(reachable, root) as control:
            _wait_for_clients(control, config.min_clients, processes, log)
            run_id = control.start_run(build_bundle(), config.to_flat(), None)
            status = watch_run(run_id, config, folder, control, processes, (), say)
    return conclude(status, folder, say)


def _wait_for_clients(control: "ControlClient", least: int, processes: Processes, log: Path) -> None:
    """Return when `least` clients are connected, however long that takes."""
    from fl_dp.launch.flower.starting import SUPERLINK, check_running

    seen = -1
    while (now := control.live_nodes()) < least:
        if now != seen:
            say(f"{now} of {least} clients connected")
            seen = now
        check_running(processes, SUPERLINK, log)
        time.sleep(_POLL_SECONDS)


def split_address(address: str) -> tuple[str, int]:
    """'host:port' in two; ConfigError when it is not that."""
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdecimal() and 0 < int(port) < 2**16):
        raise ConfigError(f"{address}: expected HOST:PORT.")
    return host, int(port)
