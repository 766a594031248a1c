"""`fl-dp validate`: what training will refuse of a user's own task, before a site joins."""

from pathlib import Path
from typing import Annotated

import typer

from fl_dp.cli.arguments import naming_places, read_request
from fl_dp.cli.common import DEFAULT_CONFIG, SetOption, say, shipped
from fl_dp.launch.exit_codes import ExitCode

HELP = """Say everything that training will refuse of a task: data, loss, model, losses, metrics, optimizer.

\b
A task in a file of your own, its data as the file reads them:
  fl-dp validate my_task.py
What is built in, as a run config names it, and what that run costs a client with these records:
  fl-dp validate --config configs/digits.toml --set model=lenet-gn
Batch norms replaced by group norms, in the model that is checked:
  fl-dp validate my_task.py --fix

validate looks at one task; fl-dp check at a whole run: its mistakes, its costs in epsilon, its time.

Exit code: 0 it can be trained; 2 something was found.
"""


def validate(
    task: Annotated[
        str | None, typer.Argument(metavar="TASK", help="FILE.py or package.module:NAME.", show_default=False)
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="Run config; then the costs are said as well.", show_default=False, callback=shipped
        ),
    ] = None,
    settings: SetOption = None,
    fix: Annotated[bool, typer.Option("--fix", help="Replace what can be replaced, and say what.")] = False,
) -> ExitCode:
    given = [*(settings or ()), *([] if task is None else [f"task={task}"])]
    request = read_request(config or DEFAULT_CONFIG, (), given)
    run = request.config
    from fl_dp.launch.validation import validate as validate_task  # late: imports torch

    with naming_places(request):
        result = validate_task(run, config=run if config else None, fix=fix)
    say(str(result))
    return ExitCode.TRAINED if result.ok else ExitCode.USAGE
