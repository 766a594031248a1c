"""Whether clients with files of their own hold each other's records: seen before the ledger refuses them."""

from pathlib import Path
from typing import TYPE_CHECKING

from fl_dp.config.run import RunConfig
from fl_dp.errors import DataError
from fl_dp.launch.clients import client_config

if TYPE_CHECKING:
    from fl_dp.accounting.ledger.identity import Identity

_KEY = b"fl_dp copies"  # the samples are compared here, and forgotten: the ledger's have a key of its own


def check_copies(config: RunConfig) -> None:
    """DataError, with the clients' numbers, where a ledger would not enter two clients' data side by side.

    Parts of one data set share no record; files of their own may. The ledger's own rule decides.
    """
    if not config.by_client:
        return
    from fl_dp.accounting.ledger.identity import IdentityIndex, conflict

    identities = [_identity(config, client) for client in range(config.clients)]
    index = IdentityIndex()
    for client, new in enumerate(identities):
        if index.conflict(new):
            other = next(number for number, held in enumerate(identities) if conflict(held, new))
            raise DataError(
                f"clients {other} and {client}: their files hold the same records, or many of them: "
                f"{_file(config, other)} and {_file(config, client)}. "
                "A ledger enters records once; is one a copy?"
            )
        index.add(new)


def _identity(config: RunConfig, client: int) -> "Identity":
    from fl_dp.accounting.ledger.identity import Identity
    from fl_dp.federation.client.registration import registration_of
    from fl_dp.launch.spending import NOWHERE  # late: Flower comes with it
    from fl_dp.tasks.records import load_part

    settings = client_config(config, client, NOWHERE)
    return Identity.of(registration_of(load_part(settings), settings), _KEY)


def _file(config: RunConfig, client: int) -> str:
    from fl_dp.tasks.records import of_client

    return Path(of_client(config, str(client)).data.partition(":")[2]).name
