"""The quick checks before a process is started, which need no PyTorch: files and names."""

import glob
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from fl_dp.accounting.accountant import check_holds_budgets
from fl_dp.choices import FEATURES, SOURCES
from fl_dp.config.data import CLIENT
from fl_dp.config.run import RunConfig
from fl_dp.config.task import TaskSettings
from fl_dp.errors import DataError
from fl_dp.models.names import check_name
from fl_dp.reporting.wording import some

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
            rename = _rename(path) if name.isdecimal() else ""
            raise DataError(f"{whose}{file}: no such file, named by data = {settings.data!r}.{rename}")
    if settings.schema and not (schema := Path(settings.schema).expanduser().absolute()).exists():
        raise DataError(f"{schema}: no such schema file; `fl-dp schema FILE` drafts one.")


def clients_there(path: str) -> list[str]:
    """The names in place of `{client}` in the files that match `path`, sorted; the server's may be one."""
    before, _, after = str(Path(path).expanduser().absolute()).partition(CLIENT)
    found = glob.glob(f"{glob.escape(before)}*{glob.escape(after)}")
    return sorted(file[len(before) : len(file) - len(after)] for file in found)


def _rename(path: str) -> str:
    """What to do if all clients' files are called by names; empty if there are none, or some by numbers."""
    named = [name for name in clients_there(path) if name != SERVER]
    if not named or any(map(str.isdecimal, named)):
        return ""
    before, _, after = path.partition(CLIENT)
    part = before.rpartition("/")[2] + CLIENT + after.partition("/")[0]  # a file or folder
    return (
        f" Clients of a run on one machine are called 0, 1, ...; found {some(named)}: rename the files "
        f"or link them, such as ln -s {part.replace(CLIENT, named[0])} {part.replace(CLIENT, '0')}."
    )


def takes_path(source: str) -> bool:
    """Whether the file of a built-in source says `is_path=True`; it is not imported, as it needs PyTorch."""
    spec = find_spec(SOURCES.module(source)) if source in SOURCES.built_in() else None
    return bool(spec and spec.origin and "is_path=True" in Path(spec.origin).read_text(encoding="utf-8"))


def check_first(config: RunConfig, *, clients: bool) -> None:
    """The quick checks, before PyTorch is imported: files and names. Raises DataError and ConfigError.

    clients: whether they are on this machine, too.
    """
    if clients:
        check_files(config, [str(client) for client in range(config.clients)])
    if config.server_evaluates:
        check_files(config, [SERVER])
    check_holds_budgets(config.accountant)
    SOURCES.check(config.data)
    if config.features:
        FEATURES.check(config.features)
    check_name(config.model)
    from fl_dp.reporting.tracking import check_trackers  # late: a client imports no tracker

    check_trackers(config.track_names)
