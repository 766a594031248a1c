"""The executables that Flower finds on PATH in place of its own.

Flower's SuperExec starts the parts of an app by name (`flwr-clientapp`, `flwr-serverapp`, ...). A
folder that stands first on PATH therefore decides what runs:

- on a client, only this installation's own client app, whatever code the server ships; every
  other kind of task is refused, because its code would come from the server as well;
- on a server, Flower's own executables, with their output kept in a log file instead of discarded.
"""

import shlex
import sys
from pathlib import Path

from flwr.supercore.constant import TASK_TYPE_TO_COMMAND, TaskType

_CLIENT = TASK_TYPE_TO_COMMAND[TaskType.CLIENT_APP]


def write_client_commands(folder: Path) -> Path:
    """Fill `folder` with the commands of a SuperNode; returns it."""
    for command in TASK_TYPE_TO_COMMAND.values():
        _write(
            folder / command, f"echo 'fl_dp: {command} refused: a client runs only its own code' >&2\nexit 1"
        )
    python = shlex.quote(sys.executable)
    _write(folder / _CLIENT, f'exec {python} -P -m fl_dp.launch.flower.local_clientapp "$@"')
    return folder


def write_server_commands(folder: Path, log: Path) -> Path:
    """Fill `folder` with the commands of a SuperLink, whose output goes to `log`; returns it."""
    flower = Path(sys.executable).parent
    for kind in (TaskType.SERVER_APP, TaskType.SIMULATION):
        command = TASK_TYPE_TO_COMMAND[kind]
        original, target = shlex.quote(str(flower / command)), shlex.quote(str(log))
        _write(folder / command, f'exec {original} "$@" >>{target} 2>&1')
    return folder


def _write(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
