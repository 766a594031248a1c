"""`fl-dp sweep`: compares settings and seeds on simulated clients."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fl_dp.cli.common import CONFIGS, say
from fl_dp.errors import ConfigError
from fl_dp.launch.exit_codes import ExitCode

_PROGRAM = (sys.executable, "-P", "-m", "fl_dp.cli.main")

HELP = """Compare settings and seeds on simulated clients.

Runs every combination of settings with every seed.

\b
  # sweep.toml
  config = "configs/digits.toml"
  seeds = [0, 1, 2]
  [grid]
  epsilon = [1, 3, 8]

\b
  fl-dp sweep sweep.toml              # says what it costs, then runs it in sweeps/sweep
  fl-dp sweep --resume sweeps/sweep   # goes on with what is missing
  fl-dp sweep --show sweeps/sweep     # the table, at any time

On private data all runs pay in full from one lasting ledger, --ledger DIR. docs/sweeps.md explains the file.

Exit code: 0 all runs trained as asked; 3 budgets ended some early; 1 some failed; 2 nothing was started.
"""


def sweep(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[SWEEP.toml]", help="Sweep file: what to compare.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the sweep [default: sweeps/<name of the file>].")
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(help="Folder of the ledger that all runs pay from; needed for private data."),
    ] = None,
    jobs: Annotated[
        str, typer.Option(metavar="N|auto", help="Number of runs at a time; they share the cores.")
    ] = "auto",
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what the sweep would do and cost, and end.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before a private budget is spent.")] = False,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="Resume the sweep in DIR.")] = None,
    show: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Print the results of the sweep in DIR.")
    ] = None,
) -> int:
    if file is not None:
        say(f"reading {file}")
    from fl_dp.launch.sweep.sweep_file import read_sweep

    request = None if file is None else read_sweep(file, CONFIGS)  # first, to report a wrong key at once
    from fl_dp.launch.sweep import sweep as sweeps  # late: imports torch

    if show is not None:
        _refuse_beside("--show", SWEEP=file, out=out, ledger=ledger, resume=resume, plan=plan or None)
        sweeps.show(show, say)
        return ExitCode.TRAINED
    if resume is not None:
        _refuse_beside("--resume", out=out, plan=plan or None)
    if file is None or request is None:
        if resume is None:
            raise ConfigError(
                "nothing to do: name a sweep file, SWEEP.toml, or give --resume DIR or --show DIR."
            )
        _refuse_beside("--resume", ledger=ledger)
        return sweeps.resume(resume, None, jobs, _PROGRAM, say)
    if resume is not None:
        return sweeps.resume(resume, sweeps.planned(request, ledger)[1], jobs, _PROGRAM, say)
    folder = out or Path("sweeps") / file.stem
    if (folder / "plan.json").exists() and not plan:
        raise ConfigError(
            f"--out {folder}: already holds a sweep; resume it with --resume {folder}, or name another "
            "folder."
        )
    runs, fixed, cost = sweeps.planned(request, ledger)
    sweeps.tell(runs, fixed, cost, say)
    if plan:
        sweeps.tell_time(runs, fixed, jobs, say)
        return ExitCode.TRAINED
    if not (fixed.public or yes or _agreed()):
        raise ConfigError("nothing was started; to start, answer yes or give --yes.")
    return sweeps.start(fixed, folder, jobs, _PROGRAM, say)


def _refuse_beside(option: str, **given: object) -> None:
    for name, value in given.items():
        if value is not None:
            shown = name if name.isupper() else f"--{name}"
            raise ConfigError(f"{shown}: cannot be used with {option}; leave it out.")


def _agreed() -> bool:
    try:
        return (
            input("This spends the budget of these data, which cannot be undone. Start? [yes/no] ").strip()
            == "yes"
        )
    except EOFError:  # standard input is closed
        say("")
        return False
