"""The same random numbers in every test, so that a failure can be repeated; double precision for who asks."""

from collections.abc import Iterator

import pytest
import torch
from structured import exact

from fl_dp.engine import clipping
from fl_dp.engine.gradients import kept


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(0)


@pytest.fixture(name="exact")
def _exact() -> Iterator[None]:
    with exact():
        yield


@pytest.fixture(params=[True, False], ids=["host", "device"])
def where_finite(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either the host looks which examples are finite, or the device zeroes what is not."""
    for module in (clipping, kept):
        monkeypatch.setattr(module, "host_reads", lambda tensor: request.param)
