"""`fl-dp client`, which client.py calls as well: a client with data and limits of its own.

What needs Flower is imported late, so that the other commands start without it.
"""

import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from click.core import ParameterSource

from fl_dp.accounting.accountant import check_holds_budgets
from fl_dp.cli.approve import ask_on_console
from fl_dp.cli.arguments import placed, read_settings
from fl_dp.cli.common import (
    APP_OPTIONS,
    DEFAULT_ADDRESS,
    loopback_keys,
    run_command,
    say,
    state_folder,
)
from fl_dp.cli.status import status
from fl_dp.config.client import ClientConfig
from fl_dp.config.files import read_toml
from fl_dp.config.flat import places_in
from fl_dp.config.mistakes import SettingsError
from fl_dp.config.task import task_beside
from fl_dp.errors import ConfigError
from fl_dp.federation.client.approval import approvals_folder
from fl_dp.launch.client_checks import check_data_named, check_newest_ledger, check_task
from fl_dp.launch.clients import ledger_file
from fl_dp.launch.journal_watch import JournalWatch
from fl_dp.reporting.console import marked

if TYPE_CHECKING:
    from fl_dp.kits.kit import SiteKit


_OPTIONS = {"client": "--name", "partition-id": "--partition", "num-partitions": "--partition"}


def main() -> None:
    sys.exit(run_command(client_app, sys.argv[1:], prog="client.py"))


def join(
    context: typer.Context,
    kit: Annotated[
        Path | None, typer.Option(help="This site's kit, a folder; it says where the server is.")
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            help=f"HOST:PORT of the server [default: the kit's, or {DEFAULT_ADDRESS}].",
            show_default=False,
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="This client's settings, a flat TOML file.")] = None,
    name: Annotated[
        str | None, typer.Option(help="Name in reports [default: the kit's, or the host's].")
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="Task, FILE.py or package.module:NAME; must be the server's.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Model; must be the server's.")] = None,
    loss: Annotated[str | None, typer.Option(help="Loss; must be the server's.")] = None,
    data: Annotated[str | None, typer.Option(help="Data set, such as npz:PATH.")] = None,
    partition: Annotated[
        str | None, typer.Option(metavar="K/N", help="Hold part K (from 0) of N of the data set.")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="Folder of the ledger [default: ~/.local/state/fl-dp/ledger].")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget: epsilon.")] = None,
    delta: Annotated[float | None, typer.Option(help="Privacy budget: delta.")] = None,
    min_noise_multiplier: Annotated[float | None, typer.Option(help="Least noise accepted.")] = None,
    max_grad_norm: Annotated[float | None, typer.Option(help="Largest clipping bound accepted.")] = None,
    allow_unprotected: Annotated[
        bool,
        typer.Option("--allow-unprotected", help="Take part in runs without privacy; no epsilon holds then."),
    ] = False,
    approve: Annotated[
        bool, typer.Option("--approve", help="Ask here, or by fl-dp approve, before a run's first payment.")
    ] = False,
    evaluate_received: Annotated[
        bool,
        typer.Option("--evaluate-received", help="Measure each global model on this site's test rows, here."),
    ] = False,
    evaluate: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Measure a run's model, or a file of weights, on this site's test rows; join nothing.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any key of a client's settings; repeatable."),
    ] = None,
    save_model: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the final model there; the server sends it once.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End when the first run is over.")] = False,
) -> int:
    """Join the server and train whenever it asks, within the limits given here. Ctrl-C ends it.

    The server cannot change the limits, nor the code: only what is installed here runs.
    """
    if context.invoked_subcommand is not None:
        _refuse_before(context)
        return 0  # `status` follows
    given = {
        "client": name, "task": _here(task), "model": _here(model), "loss": loss, "data": data,
        "epsilon": epsilon, "delta": delta,
        "min-noise-multiplier": min_noise_multiplier, "max-grad-norm": max_grad_norm,
        "allow-unprotected": allow_unprotected or None, "approve": approve or None,
        "evaluate-received": evaluate_received or None,
        "save-model": None if save_model is None else str(save_model.expanduser().absolute()),
        **_part(partition),
    }  # fmt: skip
    own = own_settings(config, given, settings or (), ledger, site=None if kit is None else _site_of(kit))
    if evaluate is not None:
        from fl_dp.launch.own_evaluation import evaluate_file  # late: it imports torch

        say(evaluate_file(own, evaluate))
        return 0
    keys, address = _keys(kit, server, own.client)
    check_holds_budgets(own.accountant)
    check_task(own)
    _register_data(own)
    check_newest_ledger(own)
    budget = f"budget epsilon {own.epsilon:g} by {own.accountant}"
    say(f"client {own.client}: ledger {own.ledger}, {budget}")
    if own.allow_unprotected:
        say(
            marked(
                "a server may train on these data without protection; no epsilon holds then", private=False
            )
        )
    from fl_dp.launch.site import run_client  # late: as above

    folder = state_folder() / "clients" / own.client
    return run_client(own, keys, address, _watchers(own), say, folder=folder, once=once)


def _refuse_before(context: typer.Context) -> None:
    """ConfigError for an option before `status`: it would be of no use there."""
    for parameter in context.command.params:
        if context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE:
            raise ConfigError(
                f"{parameter.opts[0]}: stands before status; options of status stand behind it."
            )


def _site_of(kit: Path) -> str:
    """The name that the kit's roster gives this site."""
    from fl_dp.kits.kit import SiteKit  # late: without a kit no key is read

    return SiteKit.load(kit).name


def _keys(kit: Path | None, server: str | None, name: str) -> tuple["SiteKit", str]:
    """The kit that is named, or one of this machine's own federation; and the server's address."""
    from fl_dp.kits.kit import SiteKit
    from fl_dp.kits.loopback import loopback_server, loopback_site
    from fl_dp.kits.provision import split_address

    if kit is not None:
        found = SiteKit.load(kit)
        address = server or found.roster.addresses[0]
        split_address(address, "--server")
        return found, address
    address = server or DEFAULT_ADDRESS
    host, port = split_address(address, "--server")
    keys = loopback_keys(host, port)
    loopback_server(keys, port)  # whichever comes first makes them
    return loopback_site(keys, name), address


def own_settings(
    file: Path | None,
    options: dict[str, Any],
    texts: Sequence[str],
    ledger: Path | None,
    site: str | None = None,
) -> ClientConfig:
    """File, options and `key=value` texts together; ConfigError for a key that is in both of the last two.

    options: None where not given. site: the name that a kit gives this client; another is refused. The ledger
    that is used without any of them is the same for every name.
    """
    base, given = {} if file is None else _read(file), _together(options, texts)
    if "data" in given and base.get("data-name") and "data-name" not in given:
        raise ConfigError(
            f"--data {given['data']}: data-name = {base['data-name']!r} of {file} names its own data; "
            "name these with --set data-name=NAME, by the same name if the file was only moved."
        )
    client = given.get("client") or base.get("client") or site or socket.gethostname()
    if site is not None and client != site:
        raise ConfigError(
            f"client = {client!r}: the kit's roster calls this site {site!r}; leave the name out."
        )
    if ledger is not None:
        base["ledger"] = str(ledger_file(ledger.expanduser()))
    elif "ledger" not in base:
        base["ledger"] = str(ledger_file(state_folder() / "ledger"))
    flat = {**base, **given, "client": client}
    try:
        own = ClientConfig.from_flat(flat)
    except SettingsError as error:
        places = _places(file, options, texts)
        raise error.placed(lambda one: placed(one.words, one.key, places)) from None
    if "data" not in flat:
        check_data_named(own)
    return own


def _places(file: Path | None, options: Mapping[str, Any], texts: Sequence[str]) -> dict[str, str]:
    """Where each setting was given: a line of the file, or an option."""
    places = {} if file is None else {key: f"--config {at}" for key, at in places_in(file).items()}
    given = {key: _OPTIONS.get(key, f"--{key}") for key, value in options.items() if value is not None}
    return {**places, **given, **dict.fromkeys(read_settings(texts, ClientConfig), "--set")}


def _here(task: str | None) -> str | None:
    """The task, or model, that an option names: a file is looked for from here."""
    return task if task is None else task_beside(task, Path.cwd())


def _together(options: dict[str, Any], texts: Sequence[str]) -> dict[str, Any]:
    """Options that were given, and `key=value` texts; a key in both is refused by name."""
    given = {key: value for key, value in options.items() if value is not None}
    others = read_settings(texts, ClientConfig)
    for key in given.keys() & others.keys():
        raise ConfigError(f"--set {key}=...: is given as an option, too; leave one out.")
    others |= {key: task_beside(str(others[key]), Path.cwd()) for key in ("task", "model") if key in others}
    return {**given, **others}


def _register_data(settings: ClientConfig) -> None:
    """Read the data and register them in the ledger: what is wrong with either is reported before joining."""
    from fl_dp.federation.client.round import ClientRounds
    from fl_dp.tasks.records import load_part  # late: these import torch

    with ClientRounds.open(Path(settings.ledger)) as rounds:
        rounds.register([(settings, load_part(settings))])


def _read(file: Path) -> dict[str, Any]:
    try:
        found = read_toml(file)
    except ConfigError as error:
        raise ConfigError(f"--config {error}") from None
    for key in ("task", "model"):
        if isinstance(found.get(key), str):
            found[key] = task_beside(found[key], file.parent)
    return found


def _part(partition: str | None) -> dict[str, int]:
    """'K/N' as config keys."""
    if partition is None:
        return {}
    part, _, parts = partition.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and len(partition) < 20):
        raise ConfigError(f"--partition {partition}: expected K/N, such as 0/2.")
    return {"partition-id": int(part), "num-partitions": int(parts)}


def _watchers(settings: ClientConfig) -> list[Callable[[], None]]:
    """What is done here, beside the client, again and again."""
    watchers: list[Callable[[], None]] = [JournalWatch(settings, say).look]
    if settings.approve:
        folder, told = approvals_folder(settings.ledger), set[str]()
        watchers.append(lambda: ask_on_console(folder, told))
    if settings.evaluate_received:
        from fl_dp.launch.own_evaluation import OwnEvaluation  # late: it imports torch

        watchers.append(OwnEvaluation(settings, say).look)
    return watchers


client_app = typer.Typer(invoke_without_command=True, callback=join, **APP_OPTIONS)
client_app.command()(status)
