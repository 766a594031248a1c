"""The command line: its commands, and `fl-dp run`, which `run.sh` calls as well."""

import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import click
import typer
from click.core import ParameterSource

from fl_dp.audit.command import HELP as AUDIT_HELP
from fl_dp.audit.command import audit
from fl_dp.errors import ConfigError, FlDpError
from fl_dp.launch.arguments import ARGUMENTS, read_request, simulation_engine
from fl_dp.launch.exit_codes import ExitCode
from fl_dp.launch.flower.app_bundle import PROJECT
from fl_dp.launch.plain_help import PlainCommand
from fl_dp.launch.signals import stop_on_signals
from fl_dp.ledger_commands import ledger_app
from fl_dp.plan_commands import BUDGET_HELP, CALIBRATE_HELP, budget, calibrate

DEFAULT_CONFIG = PROJECT / "configs" / "digits.toml"

# Defaults are worded by hand: typer shows them behind a backslash when its rich mark-up is off.
ConfigOption = Annotated[
    Path,
    typer.Option(help="Run config, a flat TOML file [default: configs/digits.toml].", show_default=False),
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any run-config key; repeatable.")
]

APP_OPTIONS: dict[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
    "suggest_commands": False,  # click does so itself
}

app = typer.Typer(name="fl-dp", **APP_OPTIONS)


def main() -> None:
    """Entry point of `fl-dp`."""
    sys.exit(run_command(app, sys.argv[1:]))


def run_command(command: typer.Typer, arguments: Sequence[str], prog: str | None = None) -> int:
    """Run `command`, print an error as one line on stderr, and return the exit code."""
    try:
        with stop_on_signals():
            result = typer.main.get_command(command).main(list(arguments), prog, standalone_mode=False)
    except (ConfigError, click.UsageError) as error:
        text = error.format_message() if isinstance(error, click.UsageError) else str(error)
        return _fail(text, ExitCode.USAGE)
    except FlDpError as error:
        return _fail(str(error), ExitCode.FAILED)
    if result == ExitCode.INTERRUPTED:  # what typer makes of KeyboardInterrupt
        print("interrupted; everything that was started has been stopped", file=sys.stderr, flush=True)
    return int(result or 0)


def _fail(text: str, code: ExitCode) -> int:
    print(f"error: {text}", file=sys.stderr, flush=True)
    return int(code)


def say(text: str) -> None:
    """A line on the console, at once."""
    print(text, flush=True)


_ARGUMENT_ROWS = "\n".join(f"  {one.name:<13} {one.help} ({one.key})" for one in ARGUMENTS)
_RUN_HELP = f"""Train a federation under differential privacy, with all its processes on this machine.

\b
Arguments, and the run-config keys that they set:
{_ARGUMENT_ROWS}

All of them may be left out, from the right; what is not given comes from the config file.

Exit code: 0 trained as asked; 2 bad arguments, nothing started; 3 stopped early because the clients'
budgets are spent; 1 anything else.
"""


def refuse_beside(context: typer.Context, *names: str) -> None:
    """ConfigError when anything is given on the command line but the options `names`."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is ParameterSource.COMMANDLINE and parameter.name not in names:
            given = parameter.opts[0] if isinstance(parameter, click.Option) else "Arguments"
            raise ConfigError(f"{given}: nothing may change in a run that is resumed; leave it out.")


@app.callback(invoke_without_command=True)
def about(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Federated training with record-level differential privacy."""
    if show_version:
        say(f"fl-dp {version('fl-dp')}")
    elif context.invoked_subcommand is None:
        say(context.get_help())


# Words such as -1 reach our own checks, which name the argument, instead of being unknown options.
RUN_OPTIONS: dict[str, Any] = {"help": _RUN_HELP, "context_settings": {"ignore_unknown_options": True}}


@app.command(**RUN_OPTIONS)
def run(
    context: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar=" ".join(one.name for one in ARGUMENTS), show_default=False)
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    simulate: Annotated[bool, typer.Option("--simulate", help="Simulate the clients with Ray.")] = False,
    engine: Annotated[
        str | None, typer.Option(help="Of a simulation: ray (ours, the default) or flower (Flower's).")
    ] = None,
    ray_address: Annotated[
        str | None, typer.Option(help="Of a simulation: a Ray cluster's HOST:PORT (6379).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results and logs [default: runs/<date-time>].")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="Folder of the clients' ledgers [default: below --out].")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of partition and first weights, never of noise or choices.")
    ] = None,
    settings: SetOption = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Go on with the run in DIR that was ended, as it was started."),
    ] = None,
) -> int:
    if resume:
        refuse_beside(context, "resume", "ray_address")
        from fl_dp.launch import launcher

        return launcher.resume(resume, ray_address=ray_address, say=say)
    request = read_request(config, words or (), settings or (), seed)
    kind = simulation_engine(simulate, engine, ray_address)
    from fl_dp.launch.launcher import launch  # late: an error in an argument needs neither Flower nor torch

    return launch(request, engine=kind, out=out, ledger=ledger, ray_address=ray_address or "", say=say)


app.command(help=BUDGET_HELP, cls=PlainCommand)(budget)
app.command(help=CALIBRATE_HELP, cls=PlainCommand)(calibrate)
app.command(help=AUDIT_HELP)(audit)
app.add_typer(ledger_app, name="ledger")


if __name__ == "__main__":
    main()
