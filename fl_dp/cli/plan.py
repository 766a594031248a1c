"""`fl-dp plan`: a run by a fixed rule, from data, model, budget and clients."""

from pathlib import Path
from typing import Annotated

import typer

from fl_dp.cli.arguments import naming_places, read_request
from fl_dp.cli.common import SeedOption, SetOption, command, say, shipped, write_new
from fl_dp.config.flat import Scalar
from fl_dp.errors import ConfigError
from fl_dp.launch.defaults import check_open


@command()
def plan(
    config: Annotated[
        Path | None,
        typer.Option(help="Run config to start from [default: the keys' defaults].", callback=shipped),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Data set, a name or KIND:PATH [default: the config's].")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Model [default: the config's].")] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Privacy budget of each client [default: the config's].")
    ] = None,
    clients: Annotated[int | None, typer.Option(help="Number of clients [default: the config's].")] = None,
    fit_clients: Annotated[
        int | None, typer.Option(help="Number of clients that train in a round [default: all].")
    ] = None,
    passes: Annotated[
        int | None,
        typer.Option(
            help="Largest number of passes over each client's records [default: by the rule].",
        ),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="Largest number of rounds [default: by the rule].")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="New file for the run config; an existing one is not overwritten.")
    ] = None,
    seed: SeedOption = None,
    settings: SetOption = None,
) -> None:
    """Choose a run's settings by a fixed rule, and say why.

    \b
    Plan a run of two clients:
      fl-dp plan --data digits --model linear --epsilon 3 --clients 2 --out mine.toml
      fl-dp run --config mine.toml
    Plan a run with 10 of 100 clients in a round and at most 5 passes, from a config with data and model:
      fl-dp plan --config run.toml --clients 100 --fit-clients 10 --passes 5

    The rule chooses rounds, local epochs, batch sizes, learning rate, momentum, clipping bound and noise. It
    uses the number and shape of the records, but no values. No run is started, and nothing is spent.
    docs/planning.md has the rule and its sources.
    """
    options: dict[str, Scalar | None] = {
        "data": data,
        "model": model,
        "epsilon": epsilon,
        "clients": clients,
        "fit-clients": fit_clients,
        "seed": seed,
    }
    check_open(text.partition("=")[0].strip() for text in settings or ())
    request = read_request(config, settings=settings or (), options=options)
    if out is not None and out.exists():
        raise ConfigError(f"--out {out}: already exists and is not overwritten; name a new file.")
    if out is not None and not out.parent.is_dir():
        raise ConfigError(f"--out {out}: cannot be written: there is no folder {out.parent}.")
    from fl_dp.launch.defaults import proposal, words  # late: they import PyTorch, for a second

    with naming_places(request):
        found = proposal.propose(request, most_rounds=rounds, most_passes=passes)
    words.print_proposal(found, say)
    if out is None:
        say("to write this as a run config, give --out FILE")
        return
    write_new(out, words.run_file_text(found, request.config))
    say(f"{out} is ready; to simulate it: fl-dp run --config {out} --simulate")
    say(f"for sites with their own records: fl-dp server --config {out}")
