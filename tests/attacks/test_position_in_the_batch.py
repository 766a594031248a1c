"""A table read by place: one record in front shifts all others to other rows of the table.

The server knows all records but Alice's, and the model's code: it multiplies the example at place i by row
i of a table of signs. The known records have those signs, too, so that their gradients all point one way.
If Alice's record is there, it stands in front, every other one meets the sign of its neighbour, and half of
the sum is gone. One record has moved the sum by many times the clipping bound, for which the noise was
made.

The start-up check looked at three examples that stayed where they were. Now it lets them change their
places.
"""

import pytest
import torch
from definition import clipped_by_engine, length
from torch import Tensor, nn

from fl_dp.engine.probe import probe
from fl_dp.errors import ProbeError

PLACES = 64


class ReadsByPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 1, bias=False)
        signs = torch.randint(0, 2, (PLACES, 1), generator=torch.Generator().manual_seed(1)) * 2.0 - 1
        self.register_buffer("signs", signs)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x * self.signs[: len(x)])


class CountsPlaces(ReadsByPlace):
    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x * self.signs[torch.arange(len(x))])


@pytest.mark.parametrize("kind", [ReadsByPlace, CountsPlaces])
def test_a_model_whose_rows_meet_another_sign_at_another_place_is_refused(kind):
    model = kind()
    known = model.signs[: PLACES - 1] * torch.eye(4)[:1]
    alice = torch.eye(4)[1:2]
    without, with_her = (
        clipped_by_engine(model, batch, 1.0, loss=lambda m, x: m(x)[:, 0]).grads["linear.weight"]
        for batch in (known, torch.cat([alice, known]))
    )
    assert length({"moved": with_her - without}) > 20  # the clipping bound is 1
    with pytest.raises(ProbeError, match="depends on its place in the batch"):
        probe(model, known)
