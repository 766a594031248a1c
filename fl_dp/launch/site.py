"""One real client, from its settings to an exit code."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fl_dp.config.client import ClientConfig
from fl_dp.durable_files import exclusive
from fl_dp.errors import LaunchError
from fl_dp.kits.kit import SiteKit, ending, own_folder
from fl_dp.launch.client_processes import ClientStart, start_clients
from fl_dp.launch.clients import write_client_file
from fl_dp.launch.exit_codes import ExitCode
from fl_dp.launch.processes.environment import child_environment, cores
from fl_dp.launch.processes.log_tail import JsonLines, tail
from fl_dp.launch.processes.processes import Processes, ended

_POLL_SECONDS = 0.5
_PROCESS = "client"


def run_client(
    settings: ClientConfig,
    kit: SiteKit,
    server: str,
    watchers: Sequence[Callable[[], None]],
    say: Callable[[str], None],
    *,
    folder: Path,
    once: bool,
    at_the_end: Callable[[], str] = lambda: "",
) -> ExitCode:
    """Run the client until it ends or is interrupted, and print what it reports.

    server: HOST:PORT; empty: the addresses of the kit's roster, in turn.
    folder: of this client alone; its log is kept there. watchers: called repeatedly.
    at_the_end: says what a finished run came to here.
    """
    own_folder(folder)
    log, events = folder / "client.log", folder / "events.jsonl"
    with (
        exclusive(folder / ".lock", "another client of this name runs on this machine"),
        Processes() as processes,
    ):
        events.unlink(missing_ok=True)
        file = write_client_file(settings, folder / "client.toml")
        start = ClientStart(
            name=settings.client,
            settings=str(file),
            kit=str(kit.folder.absolute()),
            server=server,
            log=str(log),
            events=str(events),
            once=once,
        )
        env = child_environment(folder, threads=cores())
        start_clients(processes, _PROCESS, [start], env, folder / "starts.json", log)
        where = server or " or ".join(kit.roster.addresses)
        say(f"joining {kit.roster.federation} at {where}; Ctrl-C ends it; log: {log}")
        for words in ending(kit):
            say(words)
        lines, code = JsonLines(events), None
        while code is None:
            code = processes.exit_code(_PROCESS)  # asked first: once it has ended, its last lines are there
            for line in lines.new():
                more = _of_event(line["what"], settings, at_the_end)
                say(f"{line['words']}; {more}" if more else line["words"])
            for watch in watchers:
                watch()
            time.sleep(_POLL_SECONDS)
    if code:
        raise LaunchError(f"The client {ended(code)}. The end of its log, {log}:\n{tail(log)}")
    return ExitCode.TRAINED


def _of_event(what: str, settings: ClientConfig, at_the_end: Callable[[], str]) -> str:
    """What this side can add to the client's own words."""
    if what == "model":
        return f"it is in {settings.save_model}" if settings.save_model else ""
    return at_the_end() if what == "over" else ""
