"""`python -m fl_dp.cli`: the command `fl-dp run` under the name of run.sh."""

import sys

from fl_dp.cli.common import run_command
from fl_dp.cli.run import run

if __name__ == "__main__":
    sys.exit(run_command(run, sys.argv[1:], prog="run.sh"))
