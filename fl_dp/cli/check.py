"""`fl-dp check`: what `fl-dp run` would do with the same arguments, without starting it."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fl_dp.cli.arguments import ARGUMENTS, placed_error, read_request, simulation_engine
from fl_dp.cli.common import DEFAULT_CONFIG, SeedOption, SetOption, command, say, shipped
from fl_dp.errors import ConfigError, ExitCode
from fl_dp.launch.check import check_run
from fl_dp.launch.check_words import print_check


@command(ignore_unknown_options=True)  # as for run: words such as -1 reach our own checks
def check(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar=" ".join(["[CONFIG.toml]", *(one.name for one in ARGUMENTS)])),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Run config, a flat TOML file [default: configs/digits.toml].")
    ] = None,
    simulate: Annotated[bool, typer.Option("--simulate", help="Check a simulation with Ray.")] = False,
    ray_address: Annotated[
        str | None, typer.Option(help="Ray cluster of the simulation; its machines are not inspected.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder that the run would write to.")] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(help="Folder of the clients' ledger, which is only read [default: that of fl-dp run]."),
    ] = None,
    one_run_ledger: Annotated[
        bool, typer.Option("--one-run-ledger", help="Check a run with its own ledger, below --out.")
    ] = False,
    server: Annotated[
        bool, typer.Option("--server", help="Check a run of fl-dp server, whose clients are elsewhere.")
    ] = False,
    seed: SeedOption = None,
    settings: SetOption = None,
) -> ExitCode:
    """Say what a run would do and cost, without starting it.

    It reports mistakes in settings and task, and for each client the epsilon, noise and memory.

    \b
    Arguments and options are those of fl-dp run; the config may come first:
      fl-dp check run.toml
      fl-dp check run.toml --simulate 100 100 20 50 --set epsilon=2
    Count what the data have spent in a lasting ledger:
      fl-dp check run.toml --ledger ledgers
    Check a server's config; the sites bring the records:
      fl-dp check run.toml --server

    Check a task of your own, with the data that it reads:
      fl-dp check --set task=my_task.py

    Nothing is trained: of the records only form, number and classes are used. Ledgers are not changed.

    Exit code: 0 the run would finish; 2 something is wrong; 3 budgets would end it before its last round.
    """
    file, positional = _config_of(config, words or [])
    request = read_request(file, positional, settings or (), {"seed": seed})
    kind = simulation_engine(simulate, ray_address)
    if server and (simulate or ledger or one_run_ledger):
        other = "--simulate" if simulate else "--ledger" if ledger else "--one-run-ledger"
        raise ConfigError(f"--server: {other} is for clients on this machine; leave one of the two out.")
    told = partial(placed_error, places=request.places)
    found = check_run(
        request, engine=kind, out=out, ledger=ledger, one_run_ledger=one_run_ledger, server=server, told=told
    )
    print_check(found, say, simulated=kind is not None)
    return found.exit_code


def _config_of(option: Path | None, words: list[str]) -> tuple[Path, list[str]]:
    """The config that the option or the first word names, and the remaining words."""
    if words and words[0].endswith(".toml"):
        if option is not None:
            raise ConfigError(f"--config {option}: {words[0]} is a second config; leave one of the two out.")
        option, words = Path(words[0]), words[1:]
    return shipped(option) or DEFAULT_CONFIG, words
