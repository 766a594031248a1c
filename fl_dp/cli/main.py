"""`fl-dp` and its commands."""

import sys
from importlib.metadata import version
from typing import Annotated

import click
import typer
from typer.core import TyperGroup

from fl_dp.cli.after import export, predict
from fl_dp.cli.approve import HELP as APPROVE_HELP
from fl_dp.cli.approve import approve
from fl_dp.cli.audit import HELP as AUDIT_HELP
from fl_dp.cli.audit import audit
from fl_dp.cli.check import HELP as CHECK_HELP
from fl_dp.cli.check import OPTIONS as CHECK_OPTIONS
from fl_dp.cli.check import check
from fl_dp.cli.client import client_app
from fl_dp.cli.common import APP_OPTIONS, PlainCommand, run_command, say
from fl_dp.cli.costs import BUDGET_HELP, CALIBRATE_HELP, budget, calibrate
from fl_dp.cli.fine_tune import HELP as FINE_TUNE_HELP
from fl_dp.cli.fine_tune import fine_tune
from fl_dp.cli.keys import init, keys
from fl_dp.cli.kits import accept_roster, join_request, provision_federation
from fl_dp.cli.ledger import ledger_app
from fl_dp.cli.new import new
from fl_dp.cli.plan import HELP as PLAN_HELP
from fl_dp.cli.plan import plan
from fl_dp.cli.report import HELP as REPORT_HELP
from fl_dp.cli.report import report
from fl_dp.cli.run import RUN_OPTIONS, run
from fl_dp.cli.schema import HELP as SCHEMA_HELP
from fl_dp.cli.schema import schema
from fl_dp.cli.server import serve
from fl_dp.cli.sweep import HELP as SWEEP_HELP
from fl_dp.cli.sweep import sweep
from fl_dp.cli.validate import HELP as VALIDATE_HELP
from fl_dp.cli.validate import validate
from fl_dp.cli.verify import HELP as VERIFY_HELP
from fl_dp.cli.verify import verify

SECTIONS = {
    "Train": ("run", "check", "plan", "sweep", "fine-tune"),
    "See": ("report", "verify", "predict", "export"),
    "Prepare": ("new", "init", "keys", "schema", "validate"),
    "Federate": ("provision", "join-request", "accept", "server", "client", "approve"),
    "Account": ("ledger", "budget", "calibrate", "audit"),
}


class BySection(TyperGroup):
    """Lists the commands in sections, the most used first."""

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        most = formatter.width - 6 - max(map(len, self.commands))
        for section, names in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(most)) for name in names])


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

    Pages that are named, such as docs/running.md, are in a clone and in the source distribution.
    """
    if show_version:
        say(f"fl-dp {version('fl-dp')}")
    elif context.invoked_subcommand is None:
        say(context.get_help())


app.command(**RUN_OPTIONS)(run)
app.command(help=CHECK_HELP, **CHECK_OPTIONS)(check)
app.command("server")(serve)
app.add_typer(client_app, name="client")
app.command("provision")(provision_federation)
app.command("join-request")(join_request)
app.command("accept")(accept_roster)
app.command(help=FINE_TUNE_HELP)(fine_tune)
app.command(help=PLAN_HELP)(plan)
app.command()(new)
app.command()(init)
app.command()(keys)
app.command(help=REPORT_HELP)(report)
app.command()(predict)
app.command()(export)
app.command(help=BUDGET_HELP)(budget)
app.command(help=CALIBRATE_HELP)(calibrate)
app.command(help=AUDIT_HELP)(audit)
app.command(help=APPROVE_HELP)(approve)
app.command(help=VALIDATE_HELP)(validate)
app.command(help=SCHEMA_HELP)(schema)
app.command(help=VERIFY_HELP)(verify)
app.command(help=SWEEP_HELP)(sweep)
app.add_typer(ledger_app, name="ledger")
for one in app.registered_commands:
    one.cls = PlainCommand


if __name__ == "__main__":
    main()
