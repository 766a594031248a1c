"""A round that fails if and only if Alice's record is in it.

The server knows all records but Alice's. It sends zero weights and a bias of 50 for her class, of which
nobody else is. Her gradient has entries of e^-50 = 2e-22, whose float32 squares have hardly any digits. The
owner check compares lengths of rows, found that hers "does not scale", and stopped the round: no noise
protects that.
"""

from dataclasses import replace

import pytest
import torch
from definition import clipped_by_engine, length
from torch import Tensor, nn
from torch.nn import functional as F

from fl_dp.engine.probe import probe
from fl_dp.engine.tracing.ownership import OwnerCheck
from fl_dp.errors import ProbeError

HERS, ROUNDS = 3, 20


def _model(bias: float) -> nn.Module:
    model = nn.Linear(4, 10)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    with torch.no_grad():
        model.bias[HERS] = bias
    return model


def _failed(model: nn.Module, labels: Tensor) -> int:
    failed, known = 0, probe(model, torch.randn(2, 4))
    for _ in range(ROUNDS):
        axes = replace(known, owners=OwnerCheck())  # a new round knows no graph
        try:
            clipped_by_engine(
                model,
                torch.randn(len(labels), 4),
                1.0,
                axes=axes,
                loss=lambda m, x: F.cross_entropy(m(x), labels, reduction="none"),
            )
        except ProbeError:
            failed += 1
    return failed


@pytest.mark.parametrize("bias", [50.0, 60.0, 80.0])
def test_a_confident_record_does_not_end_a_round(bias):
    others = torch.tensor([0, 1, 2, 4, 5, 6])
    model = _model(bias)
    assert _failed(model, others) == 0
    assert _failed(model, torch.cat([others, torch.tensor([HERS])])) == 0


def test_a_round_that_is_paid_for_goes_on_and_tells_the_client_alone():
    """Whatever weights a server may find: the same sum comes out, and the report stays at home."""
    model, inputs = nn.Linear(4, 3), torch.randn(9, 4)
    axes, told = probe(model, inputs), []

    def mixed(model: nn.Module, x: Tensor) -> Tensor:
        return model(x).roll(1, 0).sum(1)

    with pytest.raises(ProbeError, match="the losses mix examples"):
        clipped_by_engine(model, inputs, 1.0, axes=axes, loss=mixed)
    reporting = axes.reporting(told.append)
    found = clipped_by_engine(model, inputs, 1.0, axes=reporting, loss=mixed).grads
    expected = clipped_by_engine(model, inputs, 1.0, loss=mixed).grads
    assert ["the losses mix examples" in str(error) for error in told] == [True]
    assert length({name: found[name] - grad for name, grad in expected.items()}) == 0
