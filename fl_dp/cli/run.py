"""`fl-dp run`, which `run.sh` calls as well: one federation on this machine."""

import sys
from pathlib import Path
from typing import Annotated

import click
import typer
from click.core import ParameterSource

from fl_dp.cli.arguments import ARGUMENTS, naming_places, read_request, simulation_engine
from fl_dp.cli.common import (
    DEFAULT_CONFIG,
    ConfigOption,
    OutOption,
    SeedOption,
    SetOption,
    TrackOption,
    command,
    run_command,
    say,
)
from fl_dp.config.run import MAY_CHANGE
from fl_dp.errors import ConfigError
from fl_dp.launch import launcher
from fl_dp.launch.progress_reporter import reporting_progress

_ARGUMENT_ROWS = "\n".join(f"  {one.name:<13} {one.help} ({one.key})" for one in ARGUMENTS)
_RUN_HELP = f"""Train a federation privately, all on this machine.

Starts the server and all clients on this machine; the clients train with differential privacy.

\b
Arguments and the run-config keys that they set:
{_ARGUMENT_ROWS}

Arguments may be left out from the right; the config file then decides.

Exit code: 0 trained as asked; 2 bad arguments, nothing was started; 3 stopped early because the clients'
budgets are spent; 1 any other failure.
"""


def refuse_beside(context: typer.Context, *names: str) -> None:
    """Raise ConfigError if the command line holds more than the options `names`."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is ParameterSource.COMMANDLINE and parameter.name not in names:
            given = parameter.opts[0] if isinstance(parameter, click.Option) else "Arguments"
            raise ConfigError(
                f"{given}: a resumed run keeps its settings; leave it out. Only settings that say where and "
                f"how long clients run ({', '.join(sorted(MAY_CHANGE))}) may be changed, in "
                f"{context.params['resume']}/config.toml."
            )


# unknown options, such as -1, then reach our own checks, which name the argument
@command(_RUN_HELP, ignore_unknown_options=True)
def run(
    context: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar=" ".join(one.name for one in ARGUMENTS))
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Simulate the clients with Ray, instead of starting processes.")
    ] = False,
    ray_address: Annotated[
        str | None, typer.Option(help="Simulate on the Ray cluster at HOST:PORT, usually port 6379.")
    ] = None,
    out: OutOption = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the clients' ledger [default: below --out if clients are simulated or data "
            "public, else ~/.local/state/fl-dp/ledger].",
        ),
    ] = None,
    one_run_ledger: Annotated[
        bool, typer.Option("--one-run-ledger", help="Use a ledger for this run alone, below --out.")
    ] = False,
    seed: SeedOption = None,
    settings: SetOption = None,
    track: TrackOption = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Resume the stopped run in DIR, with its own settings."),
    ] = None,
) -> int:
    if resume:
        refuse_beside(context, "resume", "ray_address")
        with reporting_progress(say) as tell:
            return launcher.resume(resume, ray_address=ray_address, tell=tell)
    request = read_request(config, words or (), settings or (), {"seed": seed, "track": track})
    kind = simulation_engine(simulate, ray_address)
    with reporting_progress(say) as tell, naming_places(request):
        return launcher.launch(
            request,
            engine=kind,
            out=out,
            ledger=ledger,
            ray_address=ray_address or "",
            tell=tell,
            one_run_ledger=one_run_ledger,
        )


if __name__ == "__main__":
    sys.exit(run_command(run, sys.argv[1:], prog="run.sh"))
