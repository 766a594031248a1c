"""Weights & Biases, offline: files that `wandb sync` can upload.

Everything that it records by itself is turned off where possible; its logs, which name paths, are deleted.
"""

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fl_dp.config.flat import Scalar
from fl_dp.reporting.tracking import Tracker

_PREFIX = "WANDB_"
_PROJECT = "fl-dp"
_HIDDEN = "-"  # instead of names that wandb would ask this machine for
_FOLDERS = ("WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR")


class _Run:
    def __init__(self, run: Any, key: str, logs: Path, ends_service: bool) -> None:
        self._run, self.key, self._logs, self._ends_service = run, key, logs, ends_service

    def log(self, server_round: int, numbers: Mapping[str, float]) -> None:
        self._run.log(dict(numbers), step=server_round, commit=True)

    def close(self, *, completed: bool) -> None:
        import wandb

        with _environment():
            self._run.finish(exit_code=0 if completed else 1)
            if self._ends_service:
                wandb.teardown()
        shutil.rmtree(self._logs, ignore_errors=True)


def _open(folder: Path, settings: Mapping[str, Scalar], key: str) -> _Run:
    with _environment():
        import wandb

        key, alone = key or secrets.token_hex(4), wandb.run is None
        run = wandb.init(
            project=_PROJECT,
            dir=str(folder),
            id=key,
            name=_PROJECT,
            resume="allow",
            reinit="create_new",
            config=dict(settings),
            settings=wandb.Settings(**_silent(folder)),
        )
        logs = Path(run.dir).parent / "logs"
        shutil.rmtree(logs, ignore_errors=True)  # they stay open, but nobody can read them any more
        return _Run(run, key, logs, alone)


def _silent(folder: Path) -> dict[str, Any]:
    """Settings under which nothing is captured or sent."""
    return {
        "mode": "offline",
        "root_dir": str(folder),
        "console": "off",
        "silent": True,
        "symlink": False,
        "disable_code": True,
        "save_code": False,
        "disable_git": True,
        "disable_job_creation": True,
        "x_disable_meta": True,
        "x_disable_stats": True,
        "x_disable_machine_info": True,
        "x_save_requirements": False,
        **dict.fromkeys(("host", "username", "email", "program", "program_relpath"), _HIDDEN),
        "program_abspath": _HIDDEN,
    }


@contextmanager
def _environment() -> Iterator[None]:
    """Inside the block wandb finds nobody else's settings, and writes to a temporary folder."""
    before = {name: value for name, value in os.environ.items() if name.startswith(_PREFIX)}
    for name in before:
        if name != "WANDB_SERVICE":
            del os.environ[name]
    with TemporaryDirectory(ignore_cleanup_errors=True) as away:
        os.environ.update(dict.fromkeys(_FOLDERS, away) | {"WANDB_ERROR_REPORTING": "false"})
        try:
            yield
        finally:
            for name in [name for name in os.environ if name.startswith(_PREFIX)]:
                del os.environ[name]
            os.environ.update(before)


TRACKER = Tracker("wandb", _open)
