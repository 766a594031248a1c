"""Checks that a ledger would accept the records of clients on this machine, and enters them."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from fl_dp.accounting.ledger.identity import Identity, IdentityIndex, conflict
from fl_dp.config.run import RunConfig
from fl_dp.durable_files import exclusive, private_folder
from fl_dp.errors import ConfigError, DataError, LedgerError
from fl_dp.federation.client.registration import account_digest, registration_of
from fl_dp.federation.client.round import ClientRounds
from fl_dp.launch.clients import client_config
from fl_dp.launch.ledger_place import NOWHERE, PUBLIC
from fl_dp.tasks.records import load_part, of_client

_KEY = b"fl_dp copies"  # samples are compared here and then dropped; the ledger uses a key of its own
_RUNNING = "running"  # a folder of locks beside the ledger, one for each account


def check_copies(config: RunConfig) -> None:
    """Raise DataError, with the clients' numbers, if a ledger would refuse two clients' data side by side.

    Parts of one data set share no record; separate files may. The ledger's own rule decides.
    """
    if not config.by_client:
        return
    index, identities = IdentityIndex(), list[Identity]()
    for client in range(config.clients):
        settings = replace(client_config(config, client, NOWHERE), test=0.0)  # whole files are compared
        identities.append(Identity.of(registration_of(load_part(settings), settings), _KEY))
    for client, new in enumerate(identities):
        if index.conflict(new):
            other = next(number for number, held in enumerate(identities) if conflict(held, new))
            files = [Path(of_client(config, str(one)).data.partition(":")[2]).name for one in (other, client)]
            raise DataError(
                f"clients {other} and {client}: their files hold the same records, or many of them: "
                f"{' and '.join(files)}. A ledger registers records only once; if one is a copy, remove it."
            )
        index.add(new)


@contextmanager
def entered(config: RunConfig, ledgers: Path) -> Iterator[None]:
    """Register the data of all clients of this machine, as each would itself. Other runs are locked out.

    ConfigError, with what to do, before anything starts, if the ledger holds the data differently or another
    run uses them. Two runs at once would both fail: each would find steps that it never asked for.
    """
    clients = [client_config(config, client, ledgers) for client in range(config.clients)]
    with ExitStack() as held:
        for one in clients:
            lock = private_folder(ledgers / _RUNNING) / f"{account_digest(one)}.lock"
            held.enter_context(exclusive(lock, "another run on this machine is training on these data"))
        try:
            with ClientRounds.open(clients[0]) as rounds:
                for one in clients:  # one at a time: each part is a copy
                    rounds.register([(one, load_part(one))])
        except LedgerError as error:
            raise ConfigError(f"{error} Or, {PUBLIC}.") from error
        yield
