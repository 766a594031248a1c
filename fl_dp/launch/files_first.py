"""Whether the files that settings name are there: known before PyTorch is imported, which takes long."""

from collections.abc import Sequence
from pathlib import Path

from fl_dp.config.data import CLIENT
from fl_dp.config.run import RunConfig
from fl_dp.config.task import TaskSettings
from fl_dp.errors import DataError

SERVER = "server"  # whose file the server's is, where each client has one; as in tasks/records.py
# Sources of ours whose argument is a path. Each says so itself (`is_path`), but its file imports PyTorch.
PATHS = ("csv", "folder", "hf", "npz", "parquet", "text")


def check_files(settings: TaskSettings, clients: Sequence[str] = ()) -> None:
    """DataError where the data, or a schema that is named, are not there. A task of one's own is not asked.

    clients: whose files are meant by `{client}`.
    """
    kind, _, path = settings.data.partition(":")
    if settings.task or kind not in PATHS or not path:
        return
    names = clients if settings.by_client else ("",)
    for name in names:
        file = Path(path.replace(CLIENT, name)).expanduser().absolute()
        if not file.exists():
            whose = f"client {name}: " if settings.by_client else ""
            raise DataError(f"{whose}{file}: no such file; data = {settings.data!r} names it.")
    if settings.schema and not (schema := Path(settings.schema).expanduser().absolute()).exists():
        raise DataError(f"{schema}: no such schema file. `fl-dp schema FILE` drafts one.")


def check_clients_files(config: RunConfig) -> None:
    """DataError where a file of the clients on this machine, or the server's own, is not there."""
    check_files(config, [str(client) for client in range(config.clients)])
    check_server_files(config)


def check_server_files(config: RunConfig) -> None:
    """DataError where the server measures on a file that is not there."""
    if config.evaluate == "server":
        check_files(config, [SERVER])
