"""A federation on this machine with a process for each client, which connect to the server's port as
usual.
"""

import json
from collections.abc import Callable, Collection
from pathlib import Path

from fl_dp.config.run import RunConfig
from fl_dp.durable_files import NewLines
from fl_dp.errors import ExitCode, LaunchError
from fl_dp.kits.provision import loopback_server, loopback_sites
from fl_dp.launch.clients import ClientStart, start_clients, write_client_files
from fl_dp.launch.processes import Processes, child_environment, cores, ended, tail
from fl_dp.launch.progress_reporter import ProgressReporter
from fl_dp.launch.resumption import Launch
from fl_dp.launch.serving import serving
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.wording import counted

Say = Callable[[str], None]

HOST = "127.0.0.1"
_CLIENTS = "clients"


def deploy(
    config: RunConfig, folder: RunFolder, start: Launch, tell: ProgressReporter, *, resumed: bool
) -> ExitCode:
    """Run the server in this process and a process for each client; their keys are deleted afterwards."""
    tell.doing("opening the server's port")
    with Processes() as processes:
        keys = processes.scratch / "keys"
        loopback_server(keys, 1)
        files = write_client_files(config, folder.clients, start.ledgers, one_run=start.one_run_ledger)
        kits = dict(zip(files, loopback_sites(keys, [file.stem for file in files]), strict=True))
        with serving(loopback_server(keys, 1), folder, HOST, 0) as served:
            events = processes.scratch / "events.jsonl"
            starts = [
                ClientStart(
                    name=file.stem,
                    settings=str(file),
                    kit=str(kits[file].folder),
                    server=f"{HOST}:{served.port}",
                    log=str(folder.log(f"client-{file.stem}")),
                    events=str(events),
                )
                for file in files
            ]
            log = folder.log(_CLIENTS)
            env = child_environment(folder.flower_home, threads=max(1, cores() // config.clients))
            tell.doing(f"starting {counted(config.clients, 'client')}", said=True)
            start_clients(processes, _CLIENTS, starts, env, folder.clients / "starts.json", log)
            watch = ClientWatch(processes, _CLIENTS, log, events, [one.name for one in starts], tell.say)
            return served.run(config, folder, tell, resumed=resumed, on_wait=watch.look)


class ClientWatch:
    """Reports which clients have ended. process: that runs them all; events: the file that they write.

    `look` raises LaunchError when the last client has ended.
    """

    def __init__(
        self,
        processes: Processes,
        process: str,
        log: Path,
        events: Path,
        clients: Collection[str],
        say: Say,
    ) -> None:
        self._processes, self._process, self._log, self._say = processes, process, log, say
        self._lines = NewLines(events)
        self._alive = set(clients)

    def look(self) -> None:
        for line in map(json.loads, self._lines.new()):
            if line["what"] == "ended":
                self._alive.discard(line["client"])
                self._say(f"client {line['client']} {line['words']}; the run goes on without it")
        code = self._processes.exit_code(self._process)
        if code is not None or not self._alive:
            how = "have stopped" if code is None else ended(code)
            raise LaunchError(f"Every client has stopped: {how}. The end of {self._log}:\n{tail(self._log)}")
