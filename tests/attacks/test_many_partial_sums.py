"""Partial sums whose roundings all point one way, until one more record shifts them.

The server knows all records but Alice's, of a logical batch of 87,000 that is computed in parts of 64. Each
part's sum is as long as it can be, 64 C. Added up in float32, the total has steps of 2^-7 C in the end, and
each addition rounds to one. The records are chosen so that all parts have the same sum, a little less than
half a step above a step: 1,360 additions round down. With Alice in front, the last record of each part goes
to the next one. These last records differ from part to part, so that now half of the parts are half a step
longer and half are shorter: they round up. The exact sums differ by C at most, what was added up by more.

Parts are added in float64, where they differ as the exact sums do.
"""

from functools import reduce
from operator import add

import pytest
import torch

from fl_dp.engine.clipping import ClippedSum

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
