"""`fl-dp` and its commands. Only the command that is called is imported."""

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any, NamedTuple

import click
import typer
from typer.core import TyperGroup

from fl_dp.cli.common import APP_OPTIONS, run_command, say
from fl_dp.config.also_called import COMMANDS


class Row(NamedTuple):
    """A command. place: its module and name there. help: the first sentence of its own."""

    place: str
    help: str


# The most used first.
SECTIONS = {
    "Train": {
        "run": Row("fl_dp.cli.run:run", "Train a federation privately, all on this machine."),
        "check": Row("fl_dp.cli.check:check", "Say what a run would do and cost, without starting it."),
        "plan": Row("fl_dp.cli.plan:plan", "Choose a run's settings by a fixed rule, and say why."),
    },
    "See": {
        "report": Row("fl_dp.cli.report:report", "Write the report of a run."),
        "verify": Row("fl_dp.cli.verify:verify", "Check a run from its files alone."),
        "predict": Row("fl_dp.cli.after:predict", "Predict new data with the model of a run."),
        "export": Row("fl_dp.cli.after:export", "Export the model of a run, with its model card."),
    },
    "Prepare": {
        "new": Row("fl_dp.cli.new:new", "Write a folder of your own, or a config with every key."),
        "keys": Row("fl_dp.cli.keys:keys", "List the keys of a run config or of a client's settings."),
        "schema": Row("fl_dp.cli.schema:schema", "Draft the schema of a table: CSV, Parquet and others."),
    },
    "Federate": {
        "provision": Row(
            "fl_dp.cli.kits:provision_federation",
            "Make a federation's keys and roster, on an offline machine.",
        ),
        "join-request": Row(
            "fl_dp.cli.kits:join_request", "Make a site's key and its request to join a federation."
        ),
        "accept": Row("fl_dp.cli.kits:accept_roster", "Add a roster to a kit."),
        "server": Row("fl_dp.cli.server:serve", "Run one federation whose sites join with `fl-dp client`."),
        "client": Row(
            "fl_dp.cli.client:client_app", "Join a server and train when it asks, within your limits."
        ),
        "approve": Row("fl_dp.cli.approve:approve", "Show and answer what servers ask of this client."),
    },
    "Account": {
        "ledger": Row(
            "fl_dp.cli.ledger:ledger_app", "Show, verify, export or retire what the data have spent."
        ),
        "audit": Row("fl_dp.cli.audit:audit", "Attack the training code to test the epsilon that it claims."),
    },
}


class Commands(Mapping[str, click.Command]):
    """The commands by name, each imported when it is asked for."""

    def __init__(self) -> None:
        self._rows = {name: row for rows in SECTIONS.values() for name, row in rows.items()}

    def __getitem__(self, name: str) -> click.Command:
        return _imported(name, self._rows[name].place)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


@cache
def _imported(name: str, place: str) -> click.Command:
    module, _, attribute = place.partition(":")
    command = typer.main.get_command(getattr(import_module(module), attribute))
    command.name = name
    return command


class BySection(TyperGroup):
    """Lists the commands in sections."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = Commands()  # type: ignore[assignment]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """As click, except that a KeyError of the import is raised: it does not mean "no such command"."""
        return self.commands[name] if name in list(self.commands) else None

    def resolve_command(self, context: click.Context, args: list[str]) -> Any:
        """As click, which suggests commands of a similar spelling; also those that are called otherwise."""
        if meant := COMMANDS.get(args[0]):
            raise click.UsageError(f"No such command {args[0]!r}. Did you mean {meant}?")
        return super().resolve_command(context, args)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        for section, rows in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name, row.help) for name, row in rows.items()])


app = typer.Typer(name="fl-dp", cls=BySection, **APP_OPTIONS)


def main() -> None:
    """Entry point of `fl-dp`."""
    sys.exit(run_command(app, sys.argv[1:]))


@app.callback(invoke_without_command=True)
def about(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Federated training with record-level differential privacy.

    Pages such as docs/running.md are in a clone and in the source distribution.
    """
    if show_version:
        say(f"fl-dp {version('fl-dp')}")
    elif context.invoked_subcommand is None:
        say(context.get_help())


if __name__ == "__main__":
    main()
