"""Plans of kernels: each is the fastest that keeps as little, and the first that fits is taken."""

import itertools
import random

import pytest
import torch

from fl_dp.engine.kernel_choice.plan import fitted, plans
from fl_dp.engine.kernel_choice.table import KernelRow

CPU = torch.device("cpu")
KERNELS = ("ghost", "instantiate", "instantiate-other")


def _row(name, seconds=None, kept=None, kernel="ghost"):
    return KernelRow(name, "outer", 4, 2, 3, kernel, "measured", seconds, 1, kept)


def _random_rows(seed):
    draw = random.Random(seed)

    def each(numbers):
        return {kernel: draw.choice(numbers) for kernel in KERNELS}

    return [_row(f"layer{i}", each([1.0, 2.0, 3.0, 5.0, 8.0]), each([10, 20, 30, 50, 80])) for i in range(4)]


def _cost(rows, plan):
    return sum(r.seconds[plan[r.parameter]] for r in rows), sum(r.kept[plan[r.parameter]] for r in rows)


@pytest.mark.parametrize("seed", range(10))
def test_no_plan_that_keeps_as_little_is_faster(seed):
    """By definition: against all 81 plans."""
    rows = _random_rows(seed)
    names, choices = [row.parameter for row in rows], itertools.product(KERNELS, repeat=4)
    every = [_cost(rows, dict(zip(names, kernels, strict=True))) for kernels in choices]
    found = [_cost(rows, plan) for plan in plans(rows)]
    for seconds, kept in found:
        assert seconds == min(other for other, bytes_ in every if bytes_ <= kept)
    assert found[0][0] == min(seconds for seconds, _ in every)
    assert found[-1][1] == min(kept for _, kept in every)
    assert [kept for _, kept in found] == sorted({kept for _, kept in found}, reverse=True)


def test_what_was_not_tried_or_takes_little_memory_stays():
    little = _row("little", {"ghost": 2.0, "instantiate": 1.0}, None)
    formula = _row("formula", kernel="instantiate")
    assert plans([little, formula]) == [{"little": "ghost", "formula": "instantiate"}]


class _Step:
    """Holds what `bytes_of` says of a kernel; remembers what was run."""

    def __init__(self, **bytes_of):
        self.bytes_of, self.seen = bytes_of, []

    def __call__(self, plan):
        self.seen.append(plan["a"])
        torch.zeros(self.bytes_of[plan["a"]], dtype=torch.uint8)


ROWS = [_row("a", {"fast": 1.0, "middle": 2.0, "slow": 4.0}, {"fast": 100, "middle": 50, "slow": 10})]


@pytest.mark.parametrize(
    ("room", "kernel", "fits"),
    [
        (1000, "fast", True),
        (999, "middle", True),
        (500, "middle", True),
        (499, "slow", True),
        (99, "slow", False),
    ],
)
def test_the_fastest_that_fits(room, kernel, fits):
    step = _Step(fast=1000, middle=500, slow=100)
    assert fitted(ROWS, step, room, CPU) == ({"a": kernel}, fits)
    assert step.seen[0] == "fast"
    assert not fits or kernel in step.seen


def test_kernels_for_which_memory_runs_out_do_not_fit():
    def step(plan):
        if plan["a"] == "fast":
            raise torch.OutOfMemoryError
        torch.zeros(10)

    assert fitted(ROWS, step, 1000, CPU) == ({"a": "middle"}, True)


def test_another_error_is_raised():
    with pytest.raises(KeyError):
        fitted(ROWS, lambda plan: plan["b"], 1000, CPU)


def test_where_there_is_no_choice_nothing_is_run():
    step = _Step()
    assert fitted([_row("a")], step, 1, CPU) == ({"a": "ghost"}, True)
    assert not step.seen
