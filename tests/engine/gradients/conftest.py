import pytest
import torch


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    """So that a failure can be repeated."""
    torch.manual_seed(0)
