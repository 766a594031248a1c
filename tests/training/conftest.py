"""Data that several files train on."""

import pytest
import torch
from torch.nn.functional import one_hot

from fl_dp.data.tensor_data import TensorData


@pytest.fixture
def data() -> TensorData:
    """100 records of five numbers, of three classes that can be told apart."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 3, (100,), generator=generator)
    return TensorData(torch.randn(100, 5, generator=generator) + 2 * one_hot(y, 5), y, ("a", "b", "c"))
