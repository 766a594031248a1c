"""What a private step does whatever the server chose, and whatever a record holds."""

import dataclasses

import pytest
import torch
from objectives import objective_for
from torch import Tensor, nn

from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.probe import probe
from fl_dp.errors import ProbeError
from fl_dp.form import Form
from fl_dp.records import MOST_WEIGHT, RoundPlan
from fl_dp.training import private

PLAN = RoundPlan(
    run="run", server_round=1, model="m", steps=3, expected_batch_size=8, learning_rate=1e300, momentum=0.9,
    noise_multiplier=1.0, max_grad_norm=1.0,
)  # fmt: skip


class _Product(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = nn.Parameter(torch.randn(4, 3, dtype=dtype, generator=generator))

    def forward(self, x: Tensor) -> Tensor:
        product = x.to(self.weight.dtype) @ self.weight
        return product.abs() if product.is_complex() else product.float()


def trainer(model: nn.Module, plan: RoundPlan = PLAN) -> private.PrivateTrainer:
    return private.PrivateTrainer(
        model, probe(model, torch.zeros(0, 4)), plan, objective_for(Form((4,), 3)), device=torch.device("cpu")
    )


@pytest.fixture
def data() -> TensorData:
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 3, (30,), generator=generator)
    return TensorData(torch.randn(30, 4, generator=generator), y, ("a", "b", "c"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64])
def test_weights_stay_finite_and_bounded_whatever_the_learning_rate(data: TensorData, dtype: torch.dtype):
    model = _Product(dtype)
    steps = trainer(model)
    for _ in range(PLAN.steps):
        steps.step(data, 0.3, 8)
    weight = torch.view_as_real(model.weight) if dtype.is_complex else model.weight
    assert bool(weight.isfinite().all())
    assert float(weight.detach().abs().max()) == pytest.approx(MOST_WEIGHT, rel=0.01)


def test_a_failed_owner_check_is_told_to_the_log_and_ends_no_step(data: TensorData, monkeypatch, caplog):
    steps = trainer(_Product(torch.float32), dataclasses.replace(PLAN, learning_rate=0.1))
    report = steps._axes.owners.report
    assert report is not None
    report(ProbeError("row 3"))
    assert "does not look as the model was checked: row 3" in caplog.text


def test_memory_that_runs_out_is_not_taken_for_a_record_that_cannot_be_computed(
    data: TensorData, monkeypatch
):
    """Else all records would count as nothing, instead of being computed in smaller passes."""
    steps = trainer(_Product(torch.float32), dataclasses.replace(PLAN, learning_rate=0.1))
    sums, sizes = steps.clipped_sums, []

    def short_of_memory(batches, rows):
        sizes.append(rows)
        if rows > 4:
            raise RuntimeError("DefaultCPUAllocator: not enough memory")
        return sums(batches, rows)

    monkeypatch.setattr(steps, "clipped_sums", short_of_memory)
    found = steps._clipped_sum(data, torch.arange(8), 8)
    assert sizes == [8, 4, 4]
    assert len(found.norms) == 8


def test_each_real_batch_may_be_searched_for_mixing(data: TensorData, monkeypatch):
    steps, seen = trainer(_Product(torch.float32)), []
    monkeypatch.setattr(steps._watch, "look", lambda inputs, labels: seen.append(len(labels)))
    steps._clipped_sum(data, torch.arange(10), 8)
    assert seen == [8, 2]
