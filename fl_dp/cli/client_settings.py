"""A client's settings, combined from its file, command-line options and kit."""

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fl_dp.accounting.ledger.files import LEDGER, lasting_ledger, ledger_file
from fl_dp.cli.arguments import placed, read_settings
from fl_dp.config.client import ClientConfig
from fl_dp.config.files import read_toml
from fl_dp.config.flat import places_in
from fl_dp.config.task import task_beside
from fl_dp.config.values import SettingsError
from fl_dp.errors import ConfigError
from fl_dp.launch.resumption import Launch
from fl_dp.reporting.run_folder import RunFolder

_OPTIONS = {"client": "--name", "partition-id": "--partition", "num-partitions": "--partition"}


def own_settings(
    file: Path | None,
    options: dict[str, Any],
    texts: Sequence[str],
    ledger: Path | None,
    site: str | None = None,
) -> ClientConfig:
    """Combine file, options and `key=value` texts; ConfigError for a key in both options and texts.

    options: None for each that was not given. site: the name in the client's kit; another is refused. The
    default ledger does not depend on the name.
    """
    base, given = {} if file is None else _read(file), _together(options, texts)
    if "data" in given and base.get("data-name") and "data-name" not in given:
        raise ConfigError(
            f"--data {given['data']}: data-name = {base['data-name']!r} in {file} is the name of other "
            "data; give these data a name with --set data-name=NAME, or the same name if their file was only "
            "moved."
        )
    client = given.get("client") or base.get("client") or site or socket.gethostname()
    if site is not None and client != site:
        raise ConfigError(
            f"client = {client!r}: the kit's roster calls this site {site!r}; leave the name out."
        )
    if ledger is not None:
        base["ledger"] = str(ledger_file(ledger.expanduser()))
    elif "ledger" not in base:
        base["ledger"] = str(ledger_file(lasting_ledger()))
    flat = {**base, **given, "client": client}
    _check_ledger(flat["ledger"])
    if flat.get("one-run-ledger") and not _is_of_a_run(file, flat["ledger"]):
        raise ConfigError(
            "one-run-ledger = true: a site's ledger lasts, so it cannot have been made for one run; leave "
            "the key out. --ledger DIR names another ledger."
        )
    try:
        own = ClientConfig.from_flat(flat)
    except SettingsError as error:
        places = _places(file, options, texts)
        raise error.placed(lambda one: placed(one.words, one.key, places)) from None
    if "data" not in flat:
        check_data_named(own)
    return own


def check_data_named(settings: ClientConfig) -> None:
    """Raise ConfigError if neither settings nor task name the data: a lasting ledger records their name."""
    if settings.task:
        from fl_dp.tasks.load import reads_own_data  # late: PyTorch, for a second

        if reads_own_data(settings.task):
            return
    raise ConfigError(
        "data: name this site's records, which are registered in its lasting ledger: --data npz:PATH, or "
        "the key data in --config FILE, or --task FILE.py with its own train_data(). To try it out: --data "
        "digits."
    )


def _check_ledger(ledger: Any) -> None:
    """Raise ConfigError for a folder, which --ledger takes but the key does not: it would become a file."""
    if isinstance(ledger, str) and ledger and Path(ledger).suffix != ".sqlite":
        raise ConfigError(
            f"ledger = {ledger!r}: expected a file whose name ends in .sqlite; name "
            f"{Path(ledger) / LEDGER}. If there is already a ledger under the other name, move it there "
            "first: its payments must count."
        )


def _is_of_a_run(file: Path | None, ledger: Any) -> bool:
    """Whether the file is that of a `run.sh` client which is restarted before its run is over."""
    run = RunFolder(file.absolute().parent.parent if file else Path())
    if file is None or not run.launch.exists() or run.summary.exists():
        return False
    launch = Launch.read(run)
    return launch.one_run_ledger and str(ledger_file(launch.ledgers)) == ledger


def part_of(partition: str | None) -> dict[str, int]:
    """'K/N' as config keys."""
    if partition is None:
        return {}
    part, _, parts = partition.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and len(partition) < 20):
        raise ConfigError(f"--partition {partition}: expected K/N, such as 0/2.")
    return {"partition-id": int(part), "num-partitions": int(parts)}


def _read(file: Path) -> dict[str, Any]:
    try:
        found = read_toml(file, named=True)
    except ConfigError as error:
        raise ConfigError(f"--config {error}") from None
    for key in ("task", "model"):
        if isinstance(found.get(key), str):
            found[key] = task_beside(found[key], file.parent)
    return found


def _together(options: dict[str, Any], texts: Sequence[str]) -> dict[str, Any]:
    """The given options and `key=value` texts; a key in both is refused by name."""
    given = {key: value for key, value in options.items() if value is not None}
    others = read_settings(texts, ClientConfig)
    for key in given.keys() & others.keys():
        raise ConfigError(f"--set {key}=...: is also given as an option; leave one of the two out.")
    others |= {key: task_beside(str(others[key]), Path.cwd()) for key in ("task", "model") if key in others}
    return {**given, **others}


def _places(file: Path | None, options: Mapping[str, Any], texts: Sequence[str]) -> dict[str, str]:
    """Where each setting was given: a line of the file, or an option."""
    places = {} if file is None else {key: f"--config {at}" for key, at in places_in(file).items()}
    given = {key: _OPTIONS.get(key, f"--{key}") for key, value in options.items() if value is not None}
    return {**places, **given, **dict.fromkeys(read_settings(texts, ClientConfig), "--set")}
