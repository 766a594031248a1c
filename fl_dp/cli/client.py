"""`fl-dp client`, which client.py calls as well: a client with data and limits of its own.

What needs Flower is imported late, so that the other commands start without it.
"""

import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fl_dp.accounting.accountant import check_holds_budgets
from fl_dp.cli.approve import ask_on_console
from fl_dp.cli.arguments import read_settings
from fl_dp.cli.common import APP_OPTIONS, DEFAULT_ADDRESS, run_command, say
from fl_dp.cli.status import status
from fl_dp.config.client import ClientConfig
from fl_dp.config.files import read_toml
from fl_dp.config.task import task_beside
from fl_dp.errors import ConfigError
from fl_dp.federation.client.approval import approvals_folder
from fl_dp.launch.client_checks import check_data_named, check_task, the_only_one
from fl_dp.launch.clients import default_ledger_folder, ledger_file, state_folder, write_client_file
from fl_dp.launch.exit_codes import ExitCode
from fl_dp.launch.flower.environment import child_environment, cores
from fl_dp.launch.flower.processes import Processes
from fl_dp.launch.flower.tls import supernode_security
from fl_dp.launch.journal_watch import JournalWatch
from fl_dp.reporting.console import marked

_POLL_SECONDS = 1.0


def main() -> None:
    sys.exit(run_command(client_app, sys.argv[1:], prog="client.py"))


def join(
    context: typer.Context,
    superlink: Annotated[
        str, typer.Option(help=f"HOST:PORT of the server [default: {DEFAULT_ADDRESS}].", show_default=False)
    ] = DEFAULT_ADDRESS,
    config: Annotated[Path | None, typer.Option(help="This client's settings, a flat TOML file.")] = None,
    name: Annotated[str | None, typer.Option(help="Name in reports [default: the host's].")] = None,
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
    root_certificates: Annotated[Path | None, typer.Option(help="CA certificate of the server.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Connect without TLS.")] = False,
) -> int:
    """Join the server and train whenever it asks, within the limits given here. Ctrl-C ends it.

    The server cannot change the limits, nor the code: only what is installed here runs.
    """
    if context.invoked_subcommand is not None:
        return 0  # `status` follows
    given = {
        "client": name, "task": _here(task), "model": _here(model), "loss": loss, "data": data,
        "epsilon": epsilon, "delta": delta,
        "min-noise-multiplier": min_noise_multiplier, "max-grad-norm": max_grad_norm,
        "allow-unprotected": allow_unprotected or None, "approve": approve or None,
        "evaluate-received": evaluate_received or None, **_part(partition),
    }  # fmt: skip
    own = own_settings(config, given, settings or (), ledger)
    if evaluate is not None:
        from fl_dp.launch.own_evaluation import evaluate_file  # late: it imports torch

        say(evaluate_file(own, evaluate))
        return 0
    _check_address(superlink)
    security = supernode_security(root_certificates, insecure)
    check_holds_budgets(own.accountant)
    check_task(own)
    _register_data(own)
    budget = f"budget epsilon {own.epsilon:g} by {own.accountant}"
    say(f"client {own.client}: ledger {own.ledger}, {budget}")
    if own.allow_unprotected:
        say(
            marked(
                "a server may train on these data without protection; no epsilon holds then", private=False
            )
        )
    with the_only_one(own):
        return _run_supernode(own, superlink, security, _watchers(own))


def _check_address(superlink: str) -> None:
    host, _, port = superlink.rpartition(":")
    if not host or not (port.isdigit() and 0 < int(port) < 2**16):
        raise ConfigError(f"--superlink {superlink}: expected HOST:PORT, such as server.example.org:9092.")


def own_settings(
    file: Path | None, options: dict[str, Any], texts: Sequence[str], ledger: Path | None
) -> ClientConfig:
    """File, options and `key=value` texts together; ConfigError for a key that is in both of the last two.

    options: None where not given. The ledger that is used without any of them is the same for every name.
    """
    base, given = {} if file is None else _read(file), _together(options, texts)
    if "data" in given and base.get("data-name") and "data-name" not in given:
        raise ConfigError(
            f"--data {given['data']}: data-name = {base['data-name']!r} of {file} names its own data; "
            "name these with --set data-name=NAME, by the same name if the file was only moved."
        )
    client = given.get("client") or base.get("client") or socket.gethostname()
    if ledger is not None:
        base["ledger"] = str(ledger_file(ledger.expanduser()))
    elif "ledger" not in base:
        base["ledger"] = str(ledger_file(default_ledger_folder()))
    flat = {**base, **given, "client": client}
    own = ClientConfig.from_flat(flat)
    if "data" not in flat:
        check_data_named(own)
    return own


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


def _run_supernode(
    settings: ClientConfig, superlink: str, security: list[str], watchers: Sequence[Callable[[], None]]
) -> ExitCode:
    """Run the client until it ends or is interrupted."""
    from fl_dp.launch.flower.commands import write_client_commands
    from fl_dp.launch.flower.starting import check_running, start_supernodes, supernode_options

    folder = state_folder() / "clients" / settings.client
    file = write_client_file(settings, folder / "client.toml")
    env = child_environment(folder, write_client_commands(folder / "bin"), threads=cores())
    log = folder / "client.log"
    with Processes() as processes:
        options = {settings.client: supernode_options(file, superlink, security)}
        start_supernodes(processes, env, {settings.client: log}, options)
        say(f"joining {superlink}; Ctrl-C leaves; log: {log}")
        while True:
            check_running(processes, settings.client, log)
            for watch in watchers:
                watch()
            time.sleep(_POLL_SECONDS)


client_app = typer.Typer(invoke_without_command=True, callback=join, **APP_OPTIONS)
client_app.command()(status)
