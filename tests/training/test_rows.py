"""Every pass has one public shape, and what fills it up counts for nothing."""

import math

import pytest
import torch

from fl_dp.training.rows import best_rows, expected_passes, filled, most_rows, steady


@pytest.mark.parametrize("there", [1, 3, 5])
def test_rows_are_filled_up_with_copies_of_the_first_example_whatever_the_shape_of_labels(there):
    """Next tokens, several numbers, several labels."""
    inputs, labels = torch.randn(there, 2, 4), torch.arange(there * 6).view(there, 2, 3)
    order = [*range(there), *[0] * (5 - there)]
    for full, part in zip(filled(5, (inputs, labels)), (inputs, labels), strict=True):
        assert torch.equal(full, part[order])


def test_only_memory_of_the_host_is_pinned(monkeypatch):
    """Records of a task of the user's own may lie on a GPU, whose memory PyTorch refuses to pin."""
    asked, new_empty = [], torch.Tensor.new_empty

    def spying(tensor, *shape, pin_memory):
        asked.append(pin_memory)
        return new_empty(tensor, *shape)

    monkeypatch.setattr(torch.Tensor, "new_empty", spying)
    filled(8, (torch.empty(2, 3, device="meta"), torch.empty(2)), torch.device("cuda"))
    assert asked == [False, True]


def test_a_full_pass_is_in_memory_of_its_own():
    inputs, labels = torch.randn(4, 3), torch.zeros(4, dtype=torch.int64)
    full, _ = filled(3, (inputs[1:], labels[1:]))
    assert torch.equal(full, inputs[1:])
    assert full.data_ptr() % 64 == 0


@pytest.mark.parametrize("expected", [1, 3, 64, 1000])
@pytest.mark.parametrize("rows", [1, 8, 64, 5000])
def test_expected_passes_are_the_mean_over_poisson_draws(expected, rows):
    draws = torch.poisson(torch.full((200_000,), float(expected)), generator=torch.Generator().manual_seed(0))
    passes = (draws / rows).ceil()
    error = 6 * float(passes.std()) / math.sqrt(len(draws)) + 1e-6
    assert expected_passes(expected, rows) == pytest.approx(float(passes.mean()), abs=error)


def test_passes_that_cost_by_the_row_are_short_and_those_that_cost_by_the_pass_are_long():
    assert best_rows(lambda size: 1e-6 * size, 64, 1000) == 8
    assert best_rows(lambda size: 1e-3, 64, 1000) == 88
    assert 8 < best_rows(lambda size: 8e-6 + 1e-6 * size, 64, 1000) < 88


def test_few_sizes_are_tried_where_a_pass_takes_long():
    tried = []

    def seconds(size):
        tried.append(size)
        return 0.01 * size

    assert best_rows(seconds, 64, 1000) == 16
    assert tried == [88, 16]


@pytest.mark.parametrize(("expected", "at_most"), [(1, 1), (64, 5), (64, 1), (3, 64), (20, 64), (500, 64)])
def test_there_are_never_more_than_fit_nor_less_than_one(expected, at_most):
    for seconds in (lambda size: 1e-3, lambda size: float(size), lambda size: 1e-3 / size):
        assert 1 <= best_rows(seconds, expected, at_most) <= at_most


def test_waste_is_small_where_a_row_costs():
    """A step of mean 64 takes at most 10 % more rows, one of mean 20 at most 20 %."""
    for expected, most in ((64, 1.10), (20, 1.20)):
        rows = best_rows(lambda size: 1e-6 * size, expected, 1000)
        assert expected_passes(expected, rows) * rows <= most * expected


def test_numbers_of_rows_are_those_at_which_rows_are_steady():
    wanted = {1: 1, 3: 1, 4: 4, 7: 4, 8: 8, 15: 8, 33: 32, 100: 96, 127: 120, 128: 128, 10**9: 128}
    assert {rows: steady(rows) for rows in wanted} == wanted


def test_a_device_takes_more_rows():
    cpu, gpu = most_rows(torch.device("cpu")), most_rows(torch.device("cuda"))
    assert [steady(rows, gpu) for rows in (7, 200, 5000)] == [4, 200, 1024]
    assert best_rows(lambda size: 1e-3, 5000, 5000, cpu) == 128
    assert best_rows(lambda size: 1e-3, 5000, 5000, gpu) == 1024
