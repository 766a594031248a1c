"""`fl-dp validate`: what training will refuse of a user's own task, before a site joins."""

from pathlib import Path
from typing import Annotated

import typer

from fl_dp.cli.arguments import naming_places, read_request
from fl_dp.cli.common import DEFAULT_CONFIG, SetOption, say, shipped
from fl_dp.errors import ConfigError
from fl_dp.launch.exit_codes import ExitCode

HELP = """Say everything in a task that training would refuse.

It checks data, loss, model, losses, metrics and optimizer.

\b
Check a task in your own file, with the data that the file reads:
  fl-dp validate my_task.py
Check what a run config names, and what that run costs a client with these records:
  fl-dp validate --config configs/digits.toml --set model=lenet-gn
Replace batch norms by group norms before the check:
  fl-dp validate my_task.py --fix

validate looks at one task; fl-dp check looks at a whole run: its mistakes, its cost in epsilon and its time.

Exit code: 0 the task can be trained; 2 something must be changed.
"""


def validate(
    task: Annotated[
        str | None,
        typer.Argument(
            metavar="TASK",
            help="Task to check, FILE.py or package.module:NAME [default: the config's].",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="Run config, to see its costs as well [default: configs/digits.toml, without costs].",
            show_default=False,
            callback=shipped,
        ),
    ] = None,
    settings: SetOption = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Replace what can be replaced, and say what was.")
    ] = False,
) -> ExitCode:
    if task is not None and task.endswith(".toml"):
        raise ConfigError(f"{task}: is a run config, not a task; name it so: fl-dp validate --config {task}")
    given = [*(settings or ()), *([] if task is None else [f"task={task}"])]
    request = read_request(config or DEFAULT_CONFIG, (), given)
    run = request.config
    from fl_dp.launch.validation import validate as validate_task  # late: imports torch

    with naming_places(request):
        result = validate_task(run, config=run if config else None, fix=fix)
    say(str(result))
    return ExitCode.TRAINED if result.ok else ExitCode.USAGE
