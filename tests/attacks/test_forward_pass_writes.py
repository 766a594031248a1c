"""A forward pass that keeps the batch's mean: the noise is on the gradient, the mean is in the model.

Who gets the saved model knows all records but Alice's. The model's code writes what it saw into a parameter
or an attribute; without the known records what is left is Alice's, digit by digit. The start-up check
compared buffers only. Now it compares all parameters and what else the modules hold.
"""

import pytest
import torch
from torch import Tensor, nn

from fl_dp.engine.probe import probe
from fl_dp.errors import ProbeError


class Keeps(nn.Module):
    def __init__(self, keep) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4, bias=False)
        self.frozen = nn.Parameter(torch.zeros(4), requires_grad=False)
        self.history, self.numbers = [], {}
        self.keep = keep

    def forward(self, x: Tensor) -> Tensor:
        self.keep(self, x.detach().mean(0))
        return self.linear(x)


def _a_number_each(model: Keeps, mean: Tensor) -> None:
    model.numbers = {"mean": [float(entry) for entry in mean]}


WRITES = {
    "frozen, by data": (lambda m, mean: m.frozen.data.copy_(mean), lambda m: m.frozen, "parameter frozen"),
    "trainable": (
        lambda m, mean: m.linear.weight.data[0].copy_(mean),
        lambda m: m.linear.weight[0],
        r"parameter linear\.weight",
    ),
    "list": (lambda m, mean: m.history.append(mean), lambda m: m.history[-1], r"attribute history"),
    "numbers": (
        _a_number_each,
        lambda m: torch.tensor(m.numbers["mean"]),
        r"attribute numbers\['mean'\]\[0\]",
    ),
}


@pytest.mark.parametrize("case", WRITES)
def test_a_model_that_keeps_what_it_saw_is_refused(case):
    keep, kept, words = WRITES[case]
    known, alice = torch.randn(9, 4), torch.randn(4)
    model = Keeps(keep)
    with torch.no_grad():
        model(torch.cat([known, alice[None]]))
    torch.testing.assert_close(kept(model).detach() * 10 - known.sum(0), alice)  # there she is
    model = Keeps(keep)
    with pytest.raises(ProbeError, match=words):
        probe(model, known)


def test_an_embedding_that_shortens_the_rows_that_it_is_asked_for_is_refused():
    """The rows that are still long belong to words that nobody used."""
    model = nn.Embedding(50, 4, max_norm=1.0)
    with torch.no_grad():
        model.weight.mul_(10)
        model(torch.tensor([[3, 7]]))
        assert (model.weight.norm(dim=1) < 1.001).nonzero().flatten().tolist() == [3, 7]
    with pytest.raises(ProbeError, match=r"writes to parameter weight.* without max_norm"):
        probe(model, torch.zeros(5, 2, dtype=torch.int64))
