"""Checks before a site joins: its settings name data, and its model suits them."""

from pathlib import Path

from fl_dp.config.client import ClientConfig
from fl_dp.errors import ConfigError, LedgerError
from fl_dp.federation.client.journal import journal_folder, read_journal
from fl_dp.records import total_steps

_SECONDS = len("2026-01-31T12:00:00")  # of a time in ISO 8601


def check_data_named(settings: ClientConfig) -> None:
    """Raise ConfigError if the settings name no data, unless their task reads its own: ledgers last."""
    if settings.task:
        from fl_dp.tasks.load import task_class
        from fl_dp.tasks.task import Task

        if task_class(settings.task).train_data is not Task.train_data:
            return
    raise ConfigError(
        "data: name this site's records, which are registered in its lasting ledger: --data npz:PATH, or "
        "the key data in --config FILE, or --task FILE.py with its own train_data(). To try it out: --data "
        "digits."
    )


def check_task(settings: ClientConfig) -> None:
    """Raise ConfigError if the device is missing, or if model and loss do not suit the site's records.

    The error lists everything that `fl_dp.validate` finds. No ledger is touched, and no test row is read.
    """
    from fl_dp.federation.devices import find_devices
    from fl_dp.launch.validation import validate
    from fl_dp.tasks.records import of_client

    find_devices(settings.device)
    found = validate(of_client(settings, settings.client), test=False).findings
    if found:
        raise ConfigError(
            f"client {settings.client} would decline every round: "
            + "; ".join(str(one).rstrip(".") for one in found)
            + "."
        )


def check_newest_ledger(settings: ClientConfig) -> None:
    """Raise LedgerError if the journal beside the ledger names rounds that the ledger does not know.

    The ledger is then an older copy or was started anew. If both files are restored together, nothing is
    noticed.
    """
    from fl_dp.accounting.ledger.ledger import Ledger
    from fl_dp.federation.client.registration import dataset_name

    dataset, folder = dataset_name(settings), journal_folder(settings.ledger)
    noted = [line for line in read_journal(folder) if line.dataset == dataset and line.total]
    with Ledger.open_existing(Path(settings.ledger)) as ledger:
        accounts = [one for one in ledger.accounts() if one.dataset == dataset]
    began, since = (f(one.registered[:_SECONDS] for one in accounts) for f in (min, max))
    known = total_steps(accounts[-1].spent())
    missing = [
        line
        for line in noted
        if line.at[:_SECONDS] < began or (line.at[:_SECONDS] > since and (line.total or 0) > known)
    ]
    if missing:
        raise LedgerError(
            f"{settings.ledger}: does not have round {missing[-1].round} of run {missing[-1].run}, which "
            f"is noted in {folder}: the ledger is an older copy or was started anew. Restore the newest "
            "copy; spending cannot be undone (docs/operating.md)."
        )
