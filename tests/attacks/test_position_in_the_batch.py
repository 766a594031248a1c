"""Models that look at an example's place, or at how many there are: one record in front changes all others.

The server knows all records but Alice's, and the model's code. It multiplies the example at place i by row i
of a table of signs, or all of them by a number that depends on how many there are. The known records'
gradients all point one way. With Alice's record in front each meets the sign of its neighbour, or all meet
another number: the sum moves by many times the clipping bound, for which the noise was made.

The start-up check looked at three examples that stayed where they were. Now it lets them change their places,
and calls the model with one, two, three, five and seventeen.
"""

import pytest
import torch
from moving import moved_by_alice
from torch import Tensor, nn

from fl_dp.engine.probe import probe
from fl_dp.errors import ProbeError

PLACES = 64
SIGNS = torch.randint(0, 2, (PLACES, 1), generator=torch.Generator().manual_seed(1)) * 2.0 - 1
# What a model multiplies its inputs by; how many records are known; how many bounds Alice moves the sum by.
FACTORS = {
    "a table": (lambda n: SIGNS[:n], PLACES - 1, 20),
    "counted places": (lambda n: SIGNS[torch.arange(n)], PLACES - 1, 20),
    "odd or even": (lambda n: (-1.0) ** n, 10, 1.2),
    "more than ten": (lambda n: 1.0 if n > 10 else -1.0, 10, 1.2),
    "a share of the batch": (lambda n: 10.0 / n, 10, 1.2),
}


class Looks(nn.Module):
    def __init__(self, factor) -> None:
        super().__init__()
        self.linear, self.factor = nn.Linear(4, 1, bias=False), factor

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * self.factor(len(x))


@pytest.mark.parametrize("case", FACTORS)
def test_a_model_that_looks_at_place_or_number_is_refused(case):
    factor, known, least = FACTORS[case]
    model = Looks(factor)
    records = (SIGNS[:known] if known > 10 else torch.ones(known, 1)) * torch.eye(4)[:1]
    assert moved_by_alice(model, records, torch.eye(4)[1:2]) > least  # the clipping bound is 1
    with pytest.raises(
        ProbeError, match="depends on its place in the batch, or on how many examples there are"
    ):
        probe(model, records)
