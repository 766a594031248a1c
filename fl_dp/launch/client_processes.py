"""The processes of real clients: one parent that imports everything, and a fork of it for each client.

Runs as `python -m fl_dp.launch.client_processes FILE`; FILE lists the clients. A single client runs in the
parent itself. Each client answers every message in a process of its own, `federation/client/isolated.py`.
"""

import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fl_dp.durable_files import write_whole
from fl_dp.launch.logs import OwnersLog
from fl_dp.launch.processes import Processes
from fl_dp.records import Entry

_ANY = Entry(0.01, 1.0, 1)  # its epsilon is computed only to import what that needs


@dataclass(frozen=True, slots=True)
class ClientStart:
    """One client. settings, kit, log: paths. server: HOST:PORT; empty: the addresses in the kit's roster.

    events: the file to which it writes its events.
    """

    name: str
    settings: str
    kit: str
    server: str
    log: str
    events: str
    once: bool = False


def start_clients(
    processes: Processes,
    name: str,
    clients: Sequence[ClientStart],
    env: dict[str, str],
    file: Path,
    log: Path,
) -> None:
    """Start the clients as the process `name`, listed in `file`; `log` is the log of the shared process."""
    content = json.dumps([asdict(client) for client in clients]).encode()
    write_whole(file, lambda target: target.write(content), secret=True)
    command = [sys.executable, "-P", "-m", "fl_dp.launch.client_processes", str(file)]
    processes.start(name, command, env, log)


def main() -> None:
    clients = [ClientStart(**one) for one in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))]
    _import_all(clients)
    if len(clients) == 1:
        _live(clients[0])
        return
    names = {_forked(client): client for client in clients}
    while names:
        process, status = os.wait()
        if process in names:
            _tell_end(names.pop(process), os.waitstatus_to_exitcode(status))


def _import_all(clients: Sequence[ClientStart]) -> None:
    """Import what a round needs, once; reads no record and runs none of a site's own code."""
    import fl_dp.accounting.ledger.ledger
    import fl_dp.accounting.privacy_loss
    import fl_dp.federation.client.own_training
    import fl_dp.tasks.identity
    import fl_dp.tasks.records
    import fl_dp.tasks.sources  # noqa: F401
    from fl_dp.accounting.epsilon import compute_epsilon
    from fl_dp.config.client import ClientConfig
    from fl_dp.data.partition_scheme import PartitionSettings, choose_partition
    from fl_dp.data.source import choose_source
    from fl_dp.federation.client.loop import prepare_to_read
    from fl_dp.models.build import choose_model
    from fl_dp.models.names import is_own_code
    from fl_dp.training.local_algorithm import algorithm_class
    from fl_dp.training.losses import loss_of

    prepare_to_read()
    algorithm_class("fedavg")
    for config in {ClientConfig.from_toml(Path(client.settings)) for client in clients}:
        choose_source(config.data)
        choose_partition(PartitionSettings.of(config))
        compute_epsilon([_ANY], 1e-5, accountant=config.accountant)
        loss_of(config.loss)
        if not is_own_code(config.model):
            choose_model(config.model)


def _forked(client: ClientStart) -> int:
    """Fork a process that runs this client and ends with this one; returns its id."""
    from fl_dp.federation.client.isolated import end_with  # late: it imports Flower

    parent, process = os.getpid(), os.fork()
    if process == 0:
        code = 1
        try:
            os.setsid()
            end_with(parent)
            for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(one, signal.SIG_DFL)
            _live(client)
            code = 0
        except SystemExit as end:  # a requested end is no failure
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            logging.getLogger("fl_dp.clients").exception("the client failed")
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return process


def _live(client: ClientStart) -> None:
    """Join, and answer until the run is over or the process is stopped."""
    from fl_dp.federation.client.loop import ClientLoop, told_to
    from fl_dp.federation.link.site_link import SiteLink
    from fl_dp.kits.kit import SiteKit

    log = _log_to(Path(client.log))
    link = SiteLink(SiteKit.load(Path(client.kit)), client.server)
    tell = told_to(Path(client.events), client.name)
    signal.signal(signal.SIGTERM, _end)
    ClientLoop(link, Path(client.settings), tell, once=client.once, between=log.bound).run()


def _end(*_: object) -> None:
    """Exit cleanly: the client can still announce that it leaves."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(0)


def _log_to(path: Path) -> OwnersLog:
    """Send all output of this process and its forks to a log of the owner's; tracebacks may quote records."""
    log = OwnersLog(path, prints=True)
    logging.basicConfig(handlers=[log], level=logging.INFO, force=True)
    for chatty in ("httpx", "flwr"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    return log


def _tell_end(client: ClientStart, code: int) -> None:
    from fl_dp.federation.client.loop import told_to
    from fl_dp.launch.processes import ended

    told_to(Path(client.events), client.name)("ended", ended(code))


if __name__ == "__main__":
    main()
