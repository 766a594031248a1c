"""Noise whose pairs lie on circles that everybody can compute: a sum that is not zero moves them off.

The server knows all records but Alice's, and sends weights under which their gradients are exactly zero. It
asks for one step with all records and noise multiplier 8: the update is bare noise, or noise plus her
gradient. PyTorch's normal on a CPU makes numbers j and j + 8 of 16 from one radius, the root of -2 log(u) of
a uniform u of 24 bits. Computed back from the update, u is a multiple of 2^-24 if nothing was added: right 20
times of 20, at an epsilon of 0.43. Noise in integers on a public grid has no such mark.
"""

import torch
from torch import Tensor, nn
from trainers import plan_of, trainer_for

from fl_dp.data.tensor_data import TensorData

FEATURES, KNOWN, TRIALS = 400, 16, 20
HERS, THEIRS, MULTIPLIER = 1, 0, 8.0
SMALL = 0.1  # of squared radii: float32 tells neighbouring multiples of 2^-24 apart below
# A learning rate over batch size of 1: from weights of zero on, the update is minus the noisy sum.
PLAN = plan_of(expected_batch_size=KNOWN, learning_rate=float(KNOWN), noise_multiplier=MULTIPLIER)


def _update(records: TensorData) -> Tensor:
    """(2, FEATURES) what one step adds to the weights of the two classes that Alice's gradient is about."""
    model = nn.Linear(FEATURES, 4)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.bias[THEIRS] = 200.0
    trainer_for(model, records, PLAN).step(records, 1.0, 64)
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
