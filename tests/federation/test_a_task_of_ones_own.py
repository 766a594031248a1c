"""A client trains its own task, from its own disk. What a server names is only compared with it."""

from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from fl_dp.federation.client.registration import task_identity
from fl_dp.records import Refusal, RoundPlan
from fl_dp.tasks.load import new_model, task_of

TASK = """
    import torch
    from torch import nn
    import torch.nn.functional as F
    from fl_dp import Task

    class Mine(Task):
        def model(self):
            return nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 1))

        def losses(self, model, batch):
            inputs, targets = batch
            {spoiled}
            return F.mse_loss(model(inputs)[:, 0], targets, reduction="none")

        def train_data(self):
            inputs = torch.arange(600.0).view(100, 6) / 600
            return inputs, inputs.sum(1)
"""


FIXED = Refusal("failed", "its task cannot be used; its own log says why")
ERROR = "__import__('fl_dp.errors').errors.ConfigError('patient 17')"


@pytest.fixture
def site(tmp_path: Path, real_client: Any) -> Any:
    """A client whose task is `spoiled`, and its answer to the plan of a server with the same task."""

    def site(spoiled: str = "pass") -> Any:
        path = tmp_path / "own.py"
        path.write_text(dedent(TASK).format(spoiled=spoiled))
        client = real_client(task=str(path))

        def train(**changes: Any) -> Any:
            plan = RoundPlan("run", 1, "linear", 2, 20, 0.5, 0.0, 3.0, 1.0, task=task_identity(client.config))
            return client.train(replace(plan, **changes), model=new_model(task_of(client.config)))

        return client, train

    return site


def test_it_is_trained_and_paid_for(site: Any) -> None:
    client, train = site()
    assert client.register().public_size == 100
    assert train().steps == 2
    assert [entry.steps for entry in client.register().spent] == [2]


@pytest.mark.parametrize("asked", ["", "0123456789abcdef"])
def test_another_code_is_declined_and_costs_nothing(site: Any, asked: str) -> None:
    client, train = site()
    assert "asks for task" in train(task=asked).reason
    assert client.register().spent == ()


@pytest.mark.parametrize(
    ("spoiled", "arithmetic"),
    [
        ("raise ValueError('patient 17')", "steady-rows"),
        ("raise __import__('fl_dp.errors').errors.ModelError('patient 17')", "steady-rows"),
        (f"if len(inputs) > 8: raise {ERROR}", "steady-rows"),  # passes of all sizes are tried
        (f"if len(inputs) == 1: raise {ERROR}", "proven"),
        ("if len(inputs) == 1: raise ValueError('patient 17')", "proven"),
        ("if len(inputs) == 1: raise SystemExit('patient 17')", "proven"),
        ("inputs = inputs * torch.rand(6, generator=torch.Generator().manual_seed(0))", "steady-rows"),
    ],
)
def test_an_error_of_its_code_before_the_payment_is_one_line_to_others(
    site: Any, spoiled: str, arithmetic: str
) -> None:
    """On synthetic examples."""
    client, train = site(spoiled)
    assert train(arithmetic=arithmetic) == FIXED
    assert client.register().spent == ()


@pytest.mark.parametrize("text", [f"raise {ERROR}", "raise SystemExit('patient 17')", "pass", None])
def test_a_file_that_cannot_be_used_is_not_named_to_others(
    real_client: Any, tmp_path: Path, text: str | None
) -> None:
    path = tmp_path / "patient_17.py"
    if text is not None:
        path.write_text(text)
    assert real_client(task=str(path)).register() == FIXED


@pytest.mark.parametrize("arithmetic", ["steady-rows", "proven"])
@pytest.mark.parametrize("error", ["ValueError", "SystemExit"])
def test_a_record_that_it_cannot_take_contributes_nothing(site: Any, error: str, arithmetic: str) -> None:
    _, train = site(f"if (targets > 2.9).any(): raise {error}('patient 17')")
    assert train(expected_batch_size=100, arithmetic=arithmetic).steps == 1
