"""Each example's part of a table, its positions added up by themselves."""

import pytest
import torch

from fl_dp.engine.gradients.table_rows import Rows, added_by_halves, joined_positions
from fl_dp.engine.sum_error import Additions

NUM_ROWS = 5


def _example(n, T, d, dtype=torch.float64):  # noqa: N803
    torch.manual_seed(0)
    return torch.randint(0, NUM_ROWS, (n, T)), torch.randn(n, T, d).to(dtype)


def test_a_row_is_there_once_and_what_is_left_over_is_zero():
    grads = torch.tensor([[[1.0], [2.0], [5.0], [-2.0]]])
    rows, sums = joined_positions(torch.tensor([[4, 2, 4, 2]]), grads, NUM_ROWS)
    assert rows.tolist()[0][:2] == [2, 4]
    assert sums.flatten().tolist() == [0.0, 6.0, 0.0, 0.0]


def test_no_row_gets_much_more_than_one_vector_of_each_example():
    """Padding is one word many times; a GPU would add the zeros that are left over one after the other."""
    words = torch.zeros(16, 100, dtype=torch.int64)
    words[:, :10] = torch.arange(10)
    rows, _ = joined_positions(words, torch.zeros(16, 100, 1), 500)
    assert torch.bincount(rows.flatten()).max() <= 16 + 16 * 100 // 500 + 1


@pytest.mark.parametrize("number", [1, 2, 7, 64, 65])
def test_sums_by_halves_do_not_depend_on_zeros_behind(number):
    numbers = torch.rand(200, number, dtype=torch.float64)
    found = added_by_halves(numbers)
    torch.testing.assert_close(found, numbers.sum(1), rtol=1e-13, atol=0)
    for more in (1, 5, 70):
        assert torch.equal(added_by_halves(torch.nn.functional.pad(numbers, (0, more))), found)


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), 1e30])
def test_values_that_are_not_finite_stay_with_their_example(poison):
    indices, grads = _example(4, 6, 3, torch.float32)
    clean = Rows(indices, grads.clone(), NUM_ROWS).keep("ghost").norm_squared
    grads[2, 3, 1] = poison
    found = Rows(indices, grads, NUM_ROWS).keep("ghost").norm_squared
    assert not found[2].isfinite()
    others = torch.tensor([0, 1, 3])
    assert torch.equal(found[others], clean[others])


def test_the_vector_that_is_added_is_the_one_that_was_measured():
    """Three parts that cancel in one order leave 1,000 in another."""
    parts = torch.tensor([1e10, 4321.0, -1e10])
    for order in ([0, 1, 2], [0, 2, 1], [2, 1, 0]):
        grads = parts[order].view(1, 3, 1)
        kept = Rows(torch.zeros(1, 3, dtype=torch.int64), grads, NUM_ROWS).keep("ghost")
        added = kept.weighted_sum(torch.ones(1), Additions(1, wide=False))
        assert float(kept.norm_squared.sqrt()) == pytest.approx(float(added.norm()), rel=1e-6, abs=1e-6)


def test_positions_that_others_want_change_no_bit_of_a_length():
    """As of bags that are padded to the longest one: its length must not be in the others' last bits."""
    torch.manual_seed(0)
    tokens, grads = torch.randint(0, 5000, (200, 40)), torch.randn(200, 40, 3)
    alone = Rows(tokens, grads, 5000).keep("ghost").norm_squared
    for more in range(1, 30):
        padded = Rows(
            torch.cat([tokens, tokens.new_zeros(200, more)], 1),
            torch.cat([grads, grads.new_zeros(200, more, 3)], 1),
            5000,
        )
        assert torch.equal(padded.keep("ghost").norm_squared, alone)
