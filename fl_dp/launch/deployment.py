"""A federation on this machine with a process for each client, which connect to the server's port as
usual.
"""

from fl_dp.config.run import RunConfig
from fl_dp.launch.client_processes import ClientStart, start_clients
from fl_dp.launch.client_watch import ClientWatch
from fl_dp.launch.clients import write_client_files
from fl_dp.launch.exit_codes import ExitCode
from fl_dp.launch.processes.environment import child_environment, cores
from fl_dp.launch.processes.processes import Processes
from fl_dp.launch.progress_reporter import ProgressReporter
from fl_dp.launch.resumption import Launch
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.wording import counted

HOST = "127.0.0.1"
_CLIENTS = "clients"


def deploy(
    config: RunConfig, folder: RunFolder, start: Launch, tell: ProgressReporter, *, resumed: bool
) -> ExitCode:
    """Run the server in this process and a process for each client; their keys are deleted afterwards."""
    tell.doing("opening the server's port")
    with Processes() as processes:
        from fl_dp.kits.loopback import loopback_server, loopback_sites  # late: the clients import meanwhile

        keys = processes.scratch / "keys"
        loopback_server(keys, 1)
        files = write_client_files(config, folder.clients, start.ledgers, one_run=start.one_run_ledger)
        kits = dict(zip(files, loopback_sites(keys, [file.stem for file in files]), strict=True))
        from fl_dp.launch.serving import serving  # late: as above

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
