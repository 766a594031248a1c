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
from pathlib import Path

import fl_dp.accounting.privacy_loss
import fl_dp.tasks.sources  # noqa: F401  # both for the forks
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.config.client import ClientConfig
from fl_dp.data.partition_scheme import PartitionSettings, choose_partition
from fl_dp.data.source import choose_source
from fl_dp.federation.client.isolated import end_with
from fl_dp.federation.client.loop import ClientLoop, prepare_to_read, told_to
from fl_dp.federation.link.site_link import SiteLink
from fl_dp.kits.kit import SiteKit
from fl_dp.launch.clients import ClientStart
from fl_dp.launch.logs import OwnersLog
from fl_dp.launch.processes import ended
from fl_dp.models.build import choose_model
from fl_dp.models.names import is_own_code
from fl_dp.records import Entry
from fl_dp.training.local_algorithm import algorithm_class
from fl_dp.training.losses import loss_of

_ANY = Entry(0.01, 1.0, 1)  # its epsilon is computed only to import what that needs


def main() -> None:
    clients = [ClientStart(**one) for one in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))]
    _prepare(clients)
    if len(clients) == 1:
        _live(clients[0])
        return
    names = {_forked(client): client for client in clients}
    while names:
        process, status = os.wait()
        if process in names:
            client = names.pop(process)
            told_to(Path(client.events), client.name)("ended", ended(os.waitstatus_to_exitcode(status)))


def _prepare(clients: Sequence[ClientStart]) -> None:
    """Import what the settings choose, once; reads no record and runs none of a site's own code."""
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


if __name__ == "__main__":
    main()
