"""The search finds what trying every number would find, with few computations."""

import math

from hypothesis import example, given
from hypothesis import strategies as st

from fl_dp.accounting.search import least_within


@given(
    costs=st.lists(st.one_of(st.floats(0, 10), st.just(math.inf)), min_size=2, max_size=40),
    budget=st.floats(0.1, 9.9),
)
@example(costs=[5e-324, math.inf], budget=2.0)
def test_it_finds_the_least_number_of_any_falling_cost(costs, budget):
    falling = [math.inf, *sorted(costs, reverse=True), 0.0]
    expected = next(i for i, cost in enumerate(falling) if cost <= budget)
    high = len(falling) - 1
    assert least_within(falling.__getitem__, budget, 0, high, position=float) == expected
    assert least_within(falling.__getitem__, budget, 0, high, position=lambda i: -math.exp(-i)) == expected


def test_a_power_law_takes_few_computations():
    asked = []

    def cost(number: int) -> float:
        asked.append(number)
        return 1e6 * number**-1.7

    found = least_within(cost, 3.0, 1, 100_000, position=math.log)
    assert cost(found) <= 3.0 < cost(found - 1)
    assert len(set(asked)) <= 8
