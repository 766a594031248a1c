"""bf16: products of few digits, and a bound on what one record changes that is as exact as ever."""

from typing import Any

import pytest
import torch
from definition import length
from torch import nn
from trainers import CPU, plan_of, trainer_for

from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.backward import Axes
from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.errors import ConfigError
from fl_dp.models.build import build_model
from fl_dp.training.passes import Passes
from fl_dp.training.precision import check_precision, in_full


@pytest.fixture(params=["linear", "tanh-cnn"])
def case(request: pytest.FixtureRequest) -> tuple[nn.Module, TensorData]:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (24, 1, 28, 28), dtype=torch.uint8, generator=generator)
    data = TensorData(images, torch.arange(24) % 3, ("a", "b", "c"))
    return build_model(request.param, data.form, seed=0), data


def trainer(model: nn.Module, data: TensorData, **changes: Any) -> Any:
    usual = {"expected_batch_size": 16, "max_grad_norm": 0.3, "precision": "bf16"}
    return trainer_for(model, data, plan_of(**usual | changes))


def test_it_is_computed_in_few_digits_and_near_float32(case) -> None:
    model, data = case
    batch = data.batch(torch.arange(16))
    (low,) = trainer(model, data).clipped_sums([batch], 16)
    (full,) = trainer(model, data, precision="float32").clipped_sums([batch], 16)
    distance = length({name: low.grads[name] - full.grads[name] for name in full.grads})
    assert 1e-6 * length(full.grads) < distance < 0.05 * length(full.grads)
    assert all(total.dtype in (torch.float32, torch.float64) for total in low.grads.values())


def test_a_record_never_adds_more_than_the_bound_and_does_not_depend_on_its_place(case) -> None:
    """Nor less, where its gradient is longer: the norm is that of what is added, to float32's last digits.

    As in float32, see training/rows.py: else removing a record would move what the others add.
    """
    model, data = case
    ours = trainer(model, data)
    for rows in (8, 16):
        inputs, labels = data.batch(torch.randperm(24)[:rows])
        for one in range(8):
            (alone,) = ours.clipped_sums([(inputs[one : one + 1], labels[one : one + 1])], rows)
            assert 0.3 * (1 - 1e-3) < length(alone.grads) <= 0.3 * (1 + 1e-5)
        turned, first = torch.arange(rows).roll(3), ours._passes.losses_of(inputs, labels)
        assert torch.equal(ours._passes.losses_of(inputs[turned], labels[turned]), first[turned])
        copies = ours._passes.losses_of(inputs[:1].expand(rows, *inputs.shape[1:]), labels[:1].expand(rows))
        assert torch.equal(copies[:1], first[:1])


def test_what_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="precision = 'fp8': expected float32 or bf16"):
        check_precision("fp8", CPU)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    check_precision("bf16", CPU)
    with pytest.raises(ConfigError, match="precision = 'bf16': this GPU has no bfloat16"):
        check_precision("bf16", torch.device("cuda"))
    assert in_full(torch.ones(2, dtype=torch.bfloat16)).dtype == torch.float32
    assert in_full(torch.ones(2, dtype=torch.float64)).dtype == torch.float64


def test_a_gpu_whose_libraries_were_told_to_round_otherwise_is_refused_before_a_pass(monkeypatch) -> None:
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    objective: Any = None
    given = (nn.Linear(1, 1), Axes({}), objective, KernelChooser())
    Passes(*given, precision="float32", device=CPU)
    with pytest.raises(ConfigError, match="NVIDIA_TF32_OVERRIDE"):
        Passes(*given, precision="float32", device=torch.device("cuda"))
