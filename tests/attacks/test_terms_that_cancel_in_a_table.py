"""Known records whose terms cancel in one row of a table, and round away what all others add to it.

The server knows all records but Alice's. Most have one token three times, with gradients of 2^18, a small
number, and -2^18: together short, so that clipping lets them through. One float32 table for all records of a
pass has steps of 2^-5 or 2^-6 beside 2^18: the small numbers, 0.3 of a step, are lost if the row is above
zero and rounded to a half if below. The first record of a pass decides which; Alice, in front, changes it in
all passes. The sum moved by 7 C at 513 records, by 47 C at 3,073. Now each record's positions are added by
themselves, and what is measured is what is added.
"""

from functools import reduce
from operator import add

import pytest
import torch
from torch import Tensor, nn

from fl_dp.engine.clipping import clipped_grad_sum
from fl_dp.engine.sum_error import sum_error

WIDTH, PASS = 4, 64
LONG, STEP = 2.0**18, 2.0**-5


def _record(part: float, long: float = 0.0) -> Tensor:
    """(3, WIDTH): what each of three positions of one token adds to that token's row."""
    return torch.tensor([long, part, -long])[:, None].expand(3, WIDTH)


LESS, MORE, SMALL = _record(-0.5), _record(0.5), _record(0.3 * STEP, LONG)


@pytest.mark.parametrize("passes", [8, 48])
@pytest.mark.parametrize("tokens", [2, 4096])
def test_one_record_moves_the_table_by_no_more_than_its_own_part(passes: int, tokens: int) -> None:
    """tokens: a large table is never held for an example, a small one may be."""
    table, most = nn.Embedding(tokens, WIDTH), passes * PASS + 1

    def summed(records: Tensor) -> Tensor:
        parts = []
        for part in torch.split(records, PASS):
            losses = (table(part.new_zeros(part.shape[:2], dtype=torch.int64)) * part).sum((1, 2))
            parts.append(
                clipped_grad_sum(losses, dict(table.named_parameters()), max_grad_norm=1.0, most=most)
            )
        return reduce(add, parts).grads["weight"]

    others = torch.stack([LESS, *[SMALL] * (PASS - 2), MORE] * passes)
    moved = summed(torch.cat([MORE[None], others])) - summed(others)
    assert 0.99 < float(moved.norm()) <= 1 + sum_error(most)
