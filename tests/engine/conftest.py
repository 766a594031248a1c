"""The same random numbers in every test, so that a failure can be repeated; double precision for who asks."""

from collections.abc import Iterator

import pytest
import torch
from structured import exact


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(0)


@pytest.fixture(name="exact")
def _exact() -> Iterator[None]:
    with exact():
        yield
