"""Checks that the files named in settings exist, before the slow import of PyTorch."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from fl_dp.choices import SOURCES
from fl_dp.config.data import CLIENT
from fl_dp.config.run import RunConfig
from fl_dp.config.task import TaskSettings
from fl_dp.errors import DataError

SERVER = "server"  # stands for the client in the name of the server's file; as in tasks/records.py


def check_files(settings: TaskSettings, clients: Sequence[str] = ()) -> None:
    """Raise DataError if the data, or a named schema, do not exist. A task of the user's own is not checked.

    clients: the names to put in place of `{client}`.
    """
    kind, _, path = settings.data.partition(":")
    if settings.task or not path or not takes_path(kind):
        return
    names = clients if settings.by_client else ("",)
    for name in names:
        file = Path(path.replace(CLIENT, name)).expanduser().absolute()
        if not file.exists():
            whose = f"client {name}: " if settings.by_client else ""
            raise DataError(f"{whose}{file}: no such file, named by data = {settings.data!r}.")
    if settings.schema and not (schema := Path(settings.schema).expanduser().absolute()).exists():
        raise DataError(f"{schema}: no such schema file; `fl-dp schema FILE` drafts one.")


def takes_path(source: str) -> bool:
    """Whether the file of a built-in source says `is_path=True`; it is not imported, as it needs PyTorch."""
    spec = find_spec(SOURCES.module(source)) if source in SOURCES.built_in() else None
    return bool(spec and spec.origin and "is_path=True" in Path(spec.origin).read_text(encoding="utf-8"))


def check_clients_files(config: RunConfig) -> None:
    """Raise DataError if a file of the clients on this machine, or the server's own, does not exist."""
    check_files(config, [str(client) for client in range(config.clients)])
    check_server_files(config)


def check_server_files(config: RunConfig) -> None:
    """Raise DataError if the server evaluates on a file that does not exist."""
    if config.evaluate == "server":
        check_files(config, [SERVER])
