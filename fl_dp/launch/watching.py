"""Shows a run of Flower's on the console while it goes on."""

import time
from collections.abc import Callable, Collection

from fl_dp.config.run import RunConfig
from fl_dp.errors import LaunchError
from fl_dp.launch.flower.control import ControlClient, FlowerRunStatus
from fl_dp.launch.flower.log_tail import JsonLines
from fl_dp.launch.flower.processes import Processes
from fl_dp.launch.flower.starting import SUPERLINK, check_running, ended
from fl_dp.reporting.console import round_line
from fl_dp.reporting.run_folder import RunFolder

_POLL_SECONDS = 0.3


def watch_run(
    run_id: int,
    config: RunConfig,
    folder: RunFolder,
    control: ControlClient,
    processes: Processes,
    clients: Collection[str],
    say: Callable[[str], None],
) -> FlowerRunStatus:
    """Print a line per round until the run is over; returns the status that Flower gives it.

    clients: names of the client processes that were started here. When one ends, a line says so and the run
    goes on. LaunchError when all of them have ended, or the SuperLink has.
    """
    rounds = JsonLines(folder.rounds)
    alive = set(clients)
    while True:
        check_running(processes, SUPERLINK, folder.log(SUPERLINK))
        status = control.status(run_id)  # asked first: once it is finished, its last line is there
        for line in rounds.new():
            say(round_line(line, rounds=config.rounds, budget=config.epsilon))
        if status.finished:
            return status
        alive -= _report_ended(alive, processes, say)
        if clients and not alive:
            raise LaunchError(f"Every client has stopped. Logs: {folder.logs}")
        time.sleep(_POLL_SECONDS)


def _report_ended(alive: Collection[str], processes: Processes, say: Callable[[str], None]) -> set[str]:
    gone = {name: code for name in sorted(alive) if (code := processes.exit_code(name)) is not None}
    for name, code in gone.items():
        say(f"{name} {ended(code)}; going on without it")
    return set(gone)
