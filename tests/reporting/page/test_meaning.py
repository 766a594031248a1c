"""What an epsilon means in a guess: against the accuracy of the best test, found by brute force."""

import math

import pytest

from fl_dp.reporting.page.numbers import best_guess, percent
from fl_dp.reporting.page.render import render_page

from .conftest import Make
from .reading import Page


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.1])
def test_the_bound_is_that_of_the_worst_pair_of_distributions(epsilon: float, delta: float) -> None:
    """The dominating pair of (epsilon, delta): four outcomes, two of them sure with probability delta."""
    share = (1 - delta) / (1 + math.exp(epsilon))
    there = [delta, share * math.exp(epsilon), share, 0.0]
    not_there = list(reversed(there))
    best = sum(max(pair) for pair in zip(there, not_there, strict=True)) / 2
    assert best_guess(epsilon, delta) == pytest.approx(best, rel=1e-12)
    assert best_guess(epsilon, delta) == pytest.approx((math.exp(epsilon) + delta) / (1 + math.exp(epsilon)))


def test_numbers_are_rounded_up_and_never_say_that_a_guess_is_sure() -> None:
    assert percent(best_guess(1.0, 0.0)) == "73.2 %"
    assert percent(best_guess(9.0, 0.0)) == "almost 100 %"
    assert percent(best_guess(1e12, 0.5)) == "almost 100 %"


def test_the_page_says_how_often_a_guess_can_be_right(make: Make) -> None:
    text = Page(render_page(make(rounds=8))).text  # epsilon 2.001, shown as 2.01
    assert "right with a probability of at most 88.2 %; a blind guess is right with 50 %" in text
    assert "almost no limit" not in text
    assert "almost no limit" in Page(render_page(make("much", rounds=30))).text
