"""What a pass is computed in."""

from typing import Any

import pytest
import torch
from torch import nn
from trainers import CPU

from fl_dp.engine.backward import Axes
from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.errors import ConfigError
from fl_dp.form import Form
from fl_dp.training.objective import Objective
from fl_dp.training.passes import Passes, losses_at


@pytest.mark.parametrize(
    ("given", "found"),
    [(torch.bfloat16, torch.float32), (torch.float32, torch.float32), (torch.float64, torch.float64)],
)
def test_losses_have_the_digits_of_float32_at_least(given: torch.dtype, found: torch.dtype) -> None:
    objective = Objective(lambda model, batch: model(batch[0])[:, 0].to(given), Form((3,), 2))
    examples = (torch.rand(4, 3), torch.zeros(4, dtype=torch.int64))
    assert losses_at(nn.Linear(3, 2), objective, examples, CPU).dtype == found


def test_a_gpu_whose_libraries_were_told_to_round_otherwise_is_refused_before_a_pass(monkeypatch) -> None:
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    objective: Any = None
    given = (nn.Linear(1, 1), Axes({}), objective, KernelChooser())
    Passes(*given, device=CPU)
    with pytest.raises(ConfigError, match="NVIDIA_TF32_OVERRIDE"):
        Passes(*given, device=torch.device("cuda"))
