"""`fl-dp watch`: follows a run that goes on elsewhere, from its files."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fl_dp.cli.common import say
from fl_dp.launch.exit_codes import ExitCode


def watch(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="The run's folder.", show_default=False)],
    once: Annotated[bool, typer.Option("--once", help="Say how the run stands now, and end.")] = False,
) -> int:
    """Follow a run from its files until it is over.

    The files are only read. Exit code: that of the run: 0, 3, 1, or 130 if it was interrupted; also 1 if
    its server has died; 2 if the folder holds no run.
    """
    from fl_dp.launch.following import check_watchable, follow, look_once
    from fl_dp.reporting.run_folder import RunFolder

    folder = RunFolder(run.expanduser().absolute())
    check_watchable(folder)
    if once:
        return look_once(folder, say)
    try:
        return follow(folder, say)
    except KeyboardInterrupt:
        print("stopped watching; the run itself goes on", file=sys.stderr, flush=True)
        return ExitCode.INTERRUPTED
