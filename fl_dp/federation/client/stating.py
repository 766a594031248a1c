"""Makes a site's statement at the end of a run, and keeps the opening of its commitment at the site."""

import json
import math
import os
import secrets
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from fl_dp.accounting.alone import any_shared
from fl_dp.accounting.ledger.files import openings_file
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.durable_files import open_private
from fl_dp.errors import LedgerError
from fl_dp.federation.client.payment import Client
from fl_dp.federation.client.registration import public_kind, public_name
from fl_dp.records import Entry
from fl_dp.reporting.provenance import utc_now
from fl_dp.statements import SALT_BYTES, AccountStatement, Statement, commitment

_Held = tuple[tuple[Entry, ...], tuple[Entry, ...], str]

MOST_OF_A_RUN = 100  # statements of one ledger: clients of a machine share it, and a server may ask again


def make_statement(ledger: Ledger, clients: Sequence[Client], run: str, weights: str) -> Statement:
    """The statement about the clients' data, from the ledger at one moment.

    The salt is saved beside the ledger before the statement is returned: without it nobody could ever show
    which ledger the statement was made from. LedgerError if it cannot be written.
    """
    _check_room(ledger.path, run)
    head, held = _at_one_moment(ledger, [client.dataset for client in clients], run)
    salt = secrets.token_bytes(SALT_BYTES)
    statement = Statement(
        run=run,
        weights=weights,
        commitment=commitment(salt, head),
        retired=ledger.retirements(),
        date=utc_now(),
        version=version("fl-dp"),
        one_run_ledger=ledger.of_one_run(),
        accounts=tuple(
            _account(client, *of_account) for client, of_account in zip(clients, held, strict=True)
        ),
    )
    _keep_opening(ledger.path, statement, salt, head)
    return statement


def _at_one_moment(ledger: Ledger, datasets: Sequence[str], run: str) -> tuple[str, list[_Held]]:
    """The ledger's head; for each account what it has spent in total, and in other runs, and its arithmetic.

    Other processes may pay meanwhile, so it reads again until the head has not changed.
    """
    while True:
        head = ledger.head()
        held = list(
            zip(
                ledger.spent_all(datasets),
                ledger.spent_elsewhere(datasets, run),
                ledger.arithmetics(datasets),
                strict=True,
            )
        )
        if ledger.head() == head:
            return head, held


def _account(
    client: Client, spent: tuple[Entry, ...], other_runs: tuple[Entry, ...], arithmetic: str
) -> AccountStatement:
    settings, budget = client.settings, client.budget
    name, kind = public_name(settings), public_kind(settings)
    epsilon, alone = budget.epsilon_of(spent), budget.epsilon_alone_of(spent)
    return AccountStatement(
        client=settings.client,
        data=name,
        unit=settings.unit_name,
        public_size=client.public_size,
        spent=spent,
        epsilon=epsilon if math.isfinite(epsilon) else None,
        delta=budget.delta,
        budget=budget.epsilon,
        accountant=budget.accountant,
        arithmetic=arithmetic,
        epsilon_alone=alone if math.isfinite(alone) and any_shared(spent) else None,
        kind=kind if kind != name else "",
        other_runs=other_runs,
    )


def _check_room(ledger: Path, run: str) -> None:
    """LedgerError after MOST_OF_A_RUN statements for a run: a server could ask for more to fill the disk."""
    file = openings_file(ledger)
    said = file.read_text(encoding="utf-8").count(f'"run": {json.dumps(run)}') if file.is_file() else 0
    if said >= MOST_OF_A_RUN:
        raise LedgerError(f"{file}: {said} statements were made for run {run}; no further ones are made.")


def _keep_opening(ledger: Path, statement: Statement, salt: bytes, head: str) -> None:
    line = {
        "ledger": ledger.name,
        "run": statement.run,
        "commitment": statement.commitment,
        "salt": salt.hex(),
        "head": head,
    }
    path = openings_file(ledger)
    try:
        with open_private(path, append=True) as file:
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())  # before it is signed: a commitment that cannot be opened is worthless
    except OSError as error:
        raise LedgerError(f"{path}: cannot be written: {error.strerror}.") from None
