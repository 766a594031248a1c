"""The most that a record may have spent, if it may have been at any client in each training."""

import itertools
import math

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.largest import largest_epsilon
from fl_dp.records import Entry

SELDOM, OFTEN, SMALL = (Entry(0.31, 2.197, 8),), (Entry(0.18, 1.699, 12),), (Entry(0.08, 1.295, 24),)


def highest(times):
    """Over all combinations, one by one."""
    chosen = itertools.combinations_with_replacement([SELDOM, OFTEN, SMALL], times)
    return max(compute_epsilon(sum(one, ()), 1e-5) for one in chosen)


def test_few_combinations_are_computed_one_by_one_and_many_are_bounded():
    for times in (1, 2, 4):
        assert largest_epsilon([[SELDOM, OFTEN, SMALL]] * times, 1e-5) == highest(times)
    assert highest(9) <= largest_epsilon([[SELDOM, OFTEN, SMALL]] * 9, 1e-5) <= 1.2 * highest(9)


def test_a_part_of_another_history_counts_for_nothing():
    choices = [[(Entry(0.1, 2.0, steps),) for steps in range(1, 200)]] * 50
    assert largest_epsilon(choices, 1e-5) == compute_epsilon([Entry(0.1, 2.0, 199 * 50)], 1e-5)


def test_what_is_infinite_alone_is_infinite_together():
    assert largest_epsilon([[SELDOM, OFTEN, SMALL]] * 8 + [[(Entry(0.5, 1e-3, 1),)]], 1e-5) == math.inf
