"""A client trains its own task, from its own disk. What a server names is only compared with it."""

from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from fl_dp.config.client import ClientConfig
from fl_dp.federation.client.registration import task_identity
from fl_dp.federation.wire.arrays import state_arrays
from fl_dp.records import LocalUpdate, RoundPlan
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


FIXED = ("failed", "its task cannot be used; its own log says why")


@pytest.fixture
def site(tmp_path: Path, real_client: Any) -> Any:
    def site(spoiled: str = "pass", name: str = "hospital") -> Any:
        path = tmp_path / f"{name}.py"
        path.write_text(dedent(TASK).format(spoiled=spoiled))
        client = real_client(name, task=str(path))
        config = ClientConfig(client=name, ledger="l", task=str(path))
        return client, task_identity(config), state_arrays(new_model(task_of(config)))

    return site


def plan(task: str) -> RoundPlan:
    return RoundPlan("run", 1, "linear", 2, 20, 0.5, 0.0, 3.0, 1.0, task=task)


def test_it_is_trained_and_paid_for(site: Any) -> None:
    client, task, arrays = site()
    profile = client.register()
    assert profile.public_size == 100
    update = _train(client, plan(task), arrays)
    assert isinstance(update, LocalUpdate)
    assert [entry.steps for entry in client.register().spent] == [2]


@pytest.mark.parametrize("asked", ["", "0123456789abcdef"])
def test_another_code_is_declined_and_costs_nothing(site: Any, asked: str) -> None:
    client, _, arrays = site()
    refusal = _train(client, plan(asked), arrays)
    assert refusal.status == "declined"
    assert "asks for task" in refusal.reason
    assert client.register().spent == ()


def test_a_client_without_a_task_never_looks_for_the_servers(real_client: Any) -> None:
    client = real_client()
    refusal = client.train(plan("0123456789abcdef"))
    assert refusal.reason == (
        "the round asks for task '0123456789abcdef', this client's own settings have none of its own "
        "(its code, a table's schema, features)."
    )


@pytest.mark.parametrize(
    "spoiled",
    ["raise ValueError('patient 17')", "raise __import__('fl_dp.errors').errors.ModelError('patient 17')"],
)
def test_what_its_code_raises_is_one_line_to_others(site: Any, spoiled: str) -> None:
    """Before the payment: on synthetic examples."""
    client, task, arrays = site(spoiled)
    refusal = _train(client, plan(task), arrays)
    assert refusal.status == "failed"
    assert refusal.reason == "its task cannot be used; its own log says why"
    assert client.register().spent == ()


def test_a_record_that_it_cannot_take_contributes_nothing_and_shows_nowhere(site: Any) -> None:
    client, task, arrays = site("assert not (abs(targets - 3.0) < 0.01).any(), 'patient 17'")
    assert isinstance(_train(client, plan(task), arrays), LocalUpdate)


def _train(client: Any, asked: RoundPlan, arrays: Any) -> Any:
    from fl_dp.federation.wire.arrays import encode, specs
    from fl_dp.federation.wire.messages import plan_to_content, reply_from_content

    content = plan_to_content(asked, encode(arrays))
    return reply_from_content(client.call("train", content), specs(arrays))[0]


ERROR = "__import__('fl_dp.errors').errors.ConfigError('patient 17')"


@pytest.mark.parametrize(
    ("spoiled", "arithmetic"),
    [
        (f"if len(inputs) > 8: raise {ERROR}", "assumed"),
        (f"if len(inputs) == 1: raise {ERROR}", "proven"),
        ("if len(inputs) == 1: raise ValueError('patient 17')", "proven"),
        ("if len(inputs) == 1: raise SystemExit('patient 17')", "proven"),
        ("inputs = inputs * torch.rand(6, generator=torch.Generator().manual_seed(0))", "assumed"),
    ],
)
def test_passes_of_other_sizes_are_tried_before_the_payment(site: Any, spoiled: str, arithmetic: str) -> None:
    client, task, arrays = site(spoiled)
    refusal = _train(client, replace(plan(task), arithmetic=arithmetic), arrays)
    assert (refusal.status, refusal.reason) == FIXED
    assert client.register().spent == ()


@pytest.mark.parametrize("text", [f"raise {ERROR}", "raise SystemExit('patient 17')", "pass", None])
def test_a_file_that_cannot_be_used_is_not_named_to_others(
    real_client: Any, tmp_path: Path, text: str | None
) -> None:
    path = tmp_path / "patient_17.py"
    if text is not None:
        path.write_text(text)
    refusal = real_client("hospital", task=str(path)).register()
    assert (refusal.status, refusal.reason) == FIXED


@pytest.mark.parametrize("arithmetic", ["assumed", "proven"])
def test_a_record_that_ends_the_process_contributes_nothing(site: Any, arithmetic: str) -> None:
    client, task, arrays = site("if (targets > 2.9).any(): raise SystemExit('patient 17')")
    asked = replace(plan(task), expected_batch_size=100, arithmetic=arithmetic)
    assert isinstance(_train(client, asked, arrays), LocalUpdate)
