"""The folder of a small run that is over, as a run leaves it, made without one."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import torch
from run_records import client, record, summary

from fl_dp.config.run import RunConfig
from fl_dp.config.task import TaskSettings
from fl_dp.form import Form
from fl_dp.reporting.reports import FederationBudget
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.run_results import RunResults
from fl_dp.tasks.description import describe
from fl_dp.tasks.load import give, new_model, task_of
from fl_dp.tasks.task import Task

FORM = Form((3,), 2)
FEDERATION = FederationBudget(largest=1.5, median=1.5, least=1.5, accountants=("pld",))

MakeRun = Callable[..., Path]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """The folder of a run. kind: its task, if that is its own; settings: of its run config."""

    def make(kind: type[Task] | None = None, form: Form = FORM, **settings: Any) -> Path:
        folder = RunFolder(tmp_path / "run")
        config = RunConfig(out=str(folder.path), task=give(kind) if kind else "", **settings)
        results = RunResults(folder.path)
        folder.config.write_text(tomli_w.dumps(config.to_flat()))
        task = task_of(TaskSettings(**config.of_task()))
        task.form = form
        task.class_names = tuple(kind.classes) if kind and kind.classes else ("no", "yes")
        torch.manual_seed(1)
        model = new_model(task)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn_like(parameter))
        results.save_model(model.state_dict(), describe(task).to_dict(), private=config.private)
        both = {
            "private": config.private,
            "epsilon": 1.5,
            "federation": FEDERATION,
            "loss": 0.5,
            "accuracy": 0.75,
            "metrics": {"accuracy": 0.75},
        }
        clients = {"a": client(), "b": client(status="declined")}
        results.append_round(record(1, clients, 2.0, **both).line)
        results.write_summary(summary({"secret-name": client(1.5)}, rounds=1, **both))
        return folder.path

    return make


@pytest.fixture
def edit() -> Callable[..., None]:
    """Writes other settings into a run's config.toml."""

    def change(folder: Path, **changes: Any) -> None:
        file = RunFolder(folder).config
        config = dataclasses.replace(RunConfig.from_toml(file), **changes)
        file.write_text(tomli_w.dumps(config.to_flat()))

    return change
