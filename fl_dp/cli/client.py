"""`fl-dp client`, which client.py calls as well: a client with its own data and limits."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fl_dp.accounting.accountant import check_holds_budgets
from fl_dp.cli.approve import ask_on_console
from fl_dp.cli.arguments import task_from_here
from fl_dp.cli.client_settings import own_settings, part_of
from fl_dp.cli.common import (
    APP_OPTIONS,
    DEFAULT_ADDRESS,
    PlainCommand,
    loopback_keys,
    refuse_before,
    run_command,
    say,
)
from fl_dp.cli.kits import check_whose_kit
from fl_dp.cli.status import status
from fl_dp.config.client import ClientConfig
from fl_dp.durable_files import state_folder
from fl_dp.federation.client.approval import approvals_folder
from fl_dp.federation.client.journal import check_newest_ledger
from fl_dp.kits.kit import SiteKit
from fl_dp.kits.provision import loopback_server, loopback_site
from fl_dp.kits.roster import split_address
from fl_dp.launch.first_checks import check_files
from fl_dp.records import TEST_RECORDS
from fl_dp.reporting.console import marked

_WAIT = 300.0  # seconds of approve with --approve


def main() -> None:
    sys.exit(run_command(client_app, sys.argv[1:], prog="client.py"))


def join(
    context: typer.Context,
    kit: Annotated[
        Path | None, typer.Option(help="Folder of this site's kit, which says where the server is.")
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            help=f"HOST:PORT of the server [default: that of the kit, or {DEFAULT_ADDRESS}].",
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="This client's settings, a flat TOML file.")] = None,
    name: Annotated[
        str | None, typer.Option(help="Name in reports [default: that of the kit, or of the host].")
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="Task, FILE.py or package.module:NAME; the same as the server's.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Model; the same as the server's.")] = None,
    loss: Annotated[str | None, typer.Option(help="Loss; the same as the server's.")] = None,
    data: Annotated[str | None, typer.Option(help="Data set, such as npz:PATH.")] = None,
    partition: Annotated[
        str | None, typer.Option(metavar="K/N", help="Use part K (from 0) of a data set split into N parts.")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="Folder of the ledger [default: ~/.local/state/fl-dp/ledger].")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget: epsilon.")] = None,
    delta: Annotated[float | None, typer.Option(help="Privacy budget: delta.")] = None,
    min_noise_multiplier: Annotated[
        float | None, typer.Option(help="Least noise multiplier to accept.")
    ] = None,
    max_grad_norm: Annotated[float | None, typer.Option(help="Largest clipping bound to accept.")] = None,
    allow_unprotected: Annotated[
        bool,
        typer.Option(
            "--allow-unprotected", help="Take part in runs without privacy; no epsilon holds afterwards."
        ),
    ] = False,
    approve: Annotated[
        bool,
        typer.Option(
            "--approve",
            help=f"Ask here, or through fl-dp approve, before the first payment of a run; waits {_WAIT:g} s.",
        ),
    ] = False,
    evaluate: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Evaluate a run's model, or a file of weights, on this site's test rows, without joining.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any key of a client's settings; repeatable."),
    ] = None,
    save_model: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder to keep the final model in; the server sends it once."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End when the first run is over.")] = False,
) -> int:
    """Join a server and train when it asks, within your limits.

    Ctrl-C ends it. The server can change neither your limits nor the code: only code installed here runs.

    An option with the name of a key overrides that key; `fl-dp keys --client` lists the defaults.
    """
    if context.invoked_subcommand is not None:
        refuse_before(context)
        return 0  # `status` follows
    given = {
        "client": name,
        "task": task_from_here(task),
        "model": task_from_here(model),
        "loss": loss,
        "data": data,
        "epsilon": epsilon,
        "delta": delta,
        "min-noise-multiplier": min_noise_multiplier,
        "max-grad-norm": max_grad_norm,
        "allow-unprotected": allow_unprotected or None,
        "approve": _WAIT if approve else None,
        "save-model": None if save_model is None else str(save_model.expanduser().absolute()),
        **part_of(partition),
    }
    keys = None
    if kit is not None:
        check_whose_kit(kit, server=False)
        keys = SiteKit.load(kit)
    own = own_settings(config, given, settings or (), ledger, site=None if keys is None else keys.name)
    check_files(own, [own.client])
    if evaluate is not None:
        from fl_dp.launch.site_models import evaluate_file  # late: PyTorch, for a second

        say(evaluate_file(own, evaluate))
        return 0
    return _run(own, keys, server, once=once)


def _run(own: ClientConfig, kit: SiteKit | None, server: str | None, *, once: bool) -> int:
    """Check everything that needs no server, print who joins with which limits, and join.

    kit: None to join this machine's own federation.
    """
    if kit is None:
        host, port = split_address(server or DEFAULT_ADDRESS, "--server")
        folder = loopback_keys(host, port)
        loopback_server(folder, port)  # whichever starts first, server or client, makes the keys
        keys, address = loopback_site(folder, own.client), server or DEFAULT_ADDRESS
    else:
        keys, address = kit, server or ""  # empty: the addresses in the roster at the time of joining
        if server is not None:
            split_address(server, "--server")
    check_holds_budgets(own.accountant)
    from fl_dp.federation.client.registration import dataset_name  # late: as above
    from fl_dp.launch import site

    site.check_task(own)
    site.register_data(own)
    name = dataset_name(own)
    check_newest_ledger(Path(own.ledger), (name, name + TEST_RECORDS))
    say(f"client {own.client}: ledger {own.ledger}, budget epsilon {own.epsilon:g} by {own.accountant}")
    if own.allow_unprotected:
        words = "servers may train on these data without protection; no epsilon holds afterwards"
        say(marked(words, private=False))
    if kit is None:
        say("without --kit: joins only this user's server on this machine; a federation's site gives --kit")
    # one site name may be in several federations; a name never contains @
    called = own.client if kit is None else f"{own.client}@{keys.roster.federation}"
    journal, told = site.JournalWatch(own, say), set[str]()
    repeated = [journal.look]
    if own.approve:
        repeated.append(lambda: ask_on_console(approvals_folder(own.ledger), told))
    return site.run_client(
        own,
        keys,
        address,
        repeated,
        say,
        folder=state_folder() / "clients" / called,
        once=once,
        at_the_end=journal.at_the_end,
    )


client_app = typer.Typer(invoke_without_command=True, callback=join, **APP_OPTIONS)
client_app.command(cls=PlainCommand)(status)
