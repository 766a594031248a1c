"""Partial sums whose roundings all point one way, until one more record shifts them.

The server knows all records but Alice's, of a batch of 87,000 in parts of 64, each as long as can be. In
float32 the total has steps of 2^-7 C in the end. All 1,360 parts have the same sum, a little less than half a
step above one: they round down. With Alice in front the last record of each part goes to the next; these are
chosen so that now half of the parts round up. The exact sums differ by C at most, what was added up by more.
Parts are added in float64.

Where the data repeat after each pass, so does each pass's own error: by 1.1e-3 C in all after 257 passes,
where 1e-3 C was charged, and by 3e-2 C after 8,192.
"""

from functools import reduce
from operator import add

import pytest
import torch
from torch import nn

from fl_dp.engine.clipping import ClippedSum, clipped_grad_sum
from fl_dp.engine.sum_error import sum_error

PARTS, PART = 1360, 64
STEP = 2.0**-7  # between float32 numbers from 2^16 on
SHORT = PART - 1 + STEP * 0.47  # a part's sum: rounds down to a step, and half a step more rounds up
LAST = STEP / 4  # half of what the last records of neighbouring parts differ by


def _total(parts: list[float]) -> float:
    sums = (ClippedSum({"w": torch.tensor([part])}, 1.0, torch.zeros(1)) for part in parts)
    return float(reduce(add, sums).grads["w"])


def _shifted(alice: float) -> list[float]:
    """The parts' sums with Alice in front: each gives its last record, of +-LAST, to the next one."""
    last = [LAST if part % 2 else -LAST for part in range(PARTS)]
    return [SHORT + before - own for before, own in zip([alice, *last], last, strict=False)]


@pytest.mark.parametrize("alice", [0.0, 1.0, -1.0])
def test_the_sum_of_many_parts_moves_by_no_more_than_what_one_record_adds(alice):
    without, with_her = [SHORT] * PARTS, _shifted(alice)
    with_her.append(LAST)  # the very last record is in a part of its own now
    exact = sum(map(_exact, with_her)) - sum(map(_exact, without))
    assert abs(exact - alice) < 1e-2
    assert abs(_total(with_her) - _total(without) - exact) < 1e-9


def test_in_float32_it_would_move_by_more():
    """The attack itself, so that the test above is known to be one."""

    def added(parts):
        return float(reduce(add, (torch.tensor([part]) for part in parts)))

    assert abs(added([*_shifted(1.0), LAST]) - added([SHORT] * PARTS)) > 2


def _exact(part: float) -> float:
    """What the part's own float32 sum is."""
    return float(torch.tensor(part))


@pytest.mark.parametrize("passes", [257, 1024])
def test_passes_that_round_alike_add_up_to_no_more_than_is_charged(passes):
    """All of so large a logical batch is added in float64."""
    torch.manual_seed(22)
    layer, most = nn.Linear(64, 10), 64 * passes + 1
    records = torch.rand(64) + 0.3 * torch.randn(64, 64)

    def summed(part):
        losses = layer(part)[:, 0]
        return clipped_grad_sum(losses, dict(layer.named_parameters()), max_grad_norm=1.0, most=most)

    own, without = summed(records[-1:]), reduce(add, [summed(records)] * passes)
    in_front = torch.cat([records[-1:], records[:-1]])  # Alice is like the last record, now alone in a pass
    with_her = reduce(add, [summed(in_front)] * passes) + own
    off = [with_her.grads[name] - grad - own.grads[name] for name, grad in without.grads.items()]
    assert float(torch.cat([one.flatten() for one in off]).norm()) <= sum_error(most)
