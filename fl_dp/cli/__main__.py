"""`python -m fl_dp.cli`: the command `fl-dp run` under the name of run.sh."""

import sys

import typer

from fl_dp.cli.common import APP_OPTIONS, run_command
from fl_dp.cli.run import RUN_OPTIONS, run


def main() -> None:
    command = typer.Typer(**APP_OPTIONS)
    command.command(**RUN_OPTIONS)(run)
    sys.exit(run_command(command, sys.argv[1:], prog="run.sh"))


if __name__ == "__main__":
    main()
