"""A model that looks at how many examples there are: one record more changes all gradients.

The server knows all records but Alice's. The model's code behaves otherwise in a batch of odd size, or of
more than ten, or divides by the size. All known records have the same gradient; whether Alice's is there is
seen in the sign, or the scale, of all of them.

The start-up check called the model with three examples only. Now it does with one, two, three, five and
seventeen.
"""

import pytest
import torch
from definition import clipped_by_engine, length
from torch import Tensor, nn

from fl_dp.engine.probe import probe
from fl_dp.errors import ProbeError

FACTORS = {
    "odd or even": (lambda n: (-1.0) ** n, 10),
    "more than ten": (lambda n: 1.0 if n > 10 else -1.0, 10),
    "a share of the batch": (lambda n: 10.0 / n, 10),
}


class LooksAtTheSize(nn.Module):
    def __init__(self, factor) -> None:
        super().__init__()
        self.linear, self.factor = nn.Linear(4, 1, bias=False), factor

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * self.factor(len(x))


@pytest.mark.parametrize("case", FACTORS)
def test_a_model_that_looks_at_the_size_of_the_batch_is_refused(case):
    factor, known_records = FACTORS[case]
    model, known = LooksAtTheSize(factor), torch.eye(4)[:1].expand(known_records, -1)
    alice = torch.eye(4)[1:2]
    without, with_her = (
        clipped_by_engine(model, batch, 1.0, loss=lambda m, x: m(x)[:, 0]).grads["linear.weight"]
        for batch in (known, torch.cat([alice, known]))
    )
    assert length({"moved": with_her - without}) > 1.2  # the clipping bound is 1
    with pytest.raises(ProbeError, match="how many examples there are"):
        probe(model, known)
