import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

TASK = """
    import torch
    from torch import nn
    import torch.nn.functional as F
    from fl_dp import Task

    class Mine(Task):
        classes = ("low", "high")

        def model(self):
            return nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 2))

        def losses(self, model, batch):
            inputs, targets = batch
            return F.cross_entropy(model(inputs), targets, reduction="none")

        def train_data(self):
            inputs = torch.arange(60.0).view(10, 6)
            return inputs, torch.arange(10) % 2

        def test_data(self):
            return torch.zeros(4, 6), [0, 1, 0, 1]
"""


@pytest.fixture(autouse=True)
def only_here(tmp_path: Path) -> Iterator[None]:
    """What a test imports from a folder of its own is unknown to the next one."""
    modules, path = set(sys.modules), list(sys.path)
    yield
    for name in [one for one in sys.modules if one not in modules]:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).is_relative_to(tmp_path):
            del sys.modules[name]
    sys.path[:] = path


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Writes a task's file, and others beside it; returns its path."""

    def write(text: str = TASK, folder: str = "site", **others: str) -> Path:
        (tmp_path / folder).mkdir(exist_ok=True)
        for name, other in others.items():
            (tmp_path / folder / f"{name}.py").write_text(dedent(other))
        path = tmp_path / folder / "my_task.py"
        path.write_text(dedent(text))
        return path

    return write


@pytest.fixture
def task_text() -> str:
    return dedent(TASK)
