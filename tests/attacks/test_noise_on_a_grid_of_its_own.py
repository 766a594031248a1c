"""Noise whose pairs lie on circles that everybody can compute: a sum that is not zero moves them off.

The server knows all records but Alice's. Under its weights all known records have a gradient of exactly
zero: the bias of their class is so high that the others' probabilities are 0 in float32. It asks for one
step with all records (q = 1) and noise multiplier 8. So the update is bare noise if Alice is not there, and
noise plus her clipped gradient if she is.

PyTorch's normal on a CPU makes numbers j and j + 8 of each block of 16 from one radius, the root of -2
log(u) of a uniform u of 24 bits. From two numbers of the update the server computes u back: where radii are
small it comes out as a multiple of 2^-24 if nothing was added, and as anything else if something was. Seen
on that noise: right 20 times of 20, at an epsilon of 0.43.

Noise in integers on a public grid has no such mark: the statistic is that of arbitrary numbers either way.
"""

import torch
from objectives import objective_for
from torch import Tensor, nn

from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.probe import probe
from fl_dp.records import RoundPlan
from fl_dp.training.private import PrivateTrainer

FEATURES, KNOWN, TRIALS = 400, 16, 20
HERS, THEIRS, MULTIPLIER = 1, 0, 8.0
SMALL = 0.1  # of squared radii: float32 tells neighbouring multiples of 2^-24 apart below
# A learning rate over batch size of 1: from weights of zero on, the update is minus the noisy sum.
PLAN = RoundPlan("run", 1, "linear", 1, KNOWN, float(KNOWN), 0.0, MULTIPLIER, 1.0)


def _update(records: TensorData) -> Tensor:
    """(2, FEATURES) what one step adds to the weights of the two classes that Alice's gradient is about."""
    model = nn.Linear(FEATURES, 4)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.bias[THEIRS] = 200.0
    trainer = PrivateTrainer(
        model, probe(model, records.x[:2]), PLAN, objective_for(records.form), device=torch.device("cpu")
    )
    trainer.step(records, 1.0, 64)
    return model.weight.detach()[:2]


def _off_the_circles(update: Tensor) -> float:
    """Mean distance of u 2^24 to the nearest integer, over pairs of small radius; 0.25 for any numbers."""
    pairs = (update.double() / MULTIPLIER).reshape(-1, 2, 8)
    squares = pairs.square().sum(1)
    ticks = -torch.expm1(-squares[squares < SMALL] / 2) * 2**24
    return float((ticks - ticks.round()).abs().mean())


def _statistics(label: int | None) -> list[float]:
    """Over TRIALS steps on the known records, and on Alice's with that label if there is one."""
    found = []
    for _ in range(TRIALS):
        x = torch.randn(KNOWN, FEATURES)
        y = torch.full((KNOWN,), THEIRS)
        if label is not None:
            y[0] = label
        found.append(_off_the_circles(_update(TensorData(x, y, tuple("abcd")))))
    return found


def test_the_update_does_not_show_whether_anything_lies_under_the_noise():
    torch.manual_seed(0)
    absent, present = _statistics(None), _statistics(HERS)
    guesses = [value < 0.17 for value in absent + present]  # "nothing was added"
    assert sum(guesses) <= 4  # of 40; a mean over some 20 pairs is below 0.17 once in 200
    for found in (absent, present):
        assert abs(sum(found) / TRIALS - 0.25) < 0.04
