"""Whoever leaves much of a budget is told what would have used it."""

from dataclasses import replace

import pytest
from reporting.test_budget_table import budget
from run_records import summary

from fl_dp.config.run import RunConfig
from fl_dp.reporting.unused import unused_in, unused_line

ASKED = RunConfig(clients=10, fit_clients=1, rounds=20, epsilon=1.0)


@pytest.mark.parametrize(
    ("changes", "planned", "epsilon", "rounds", "words"),
    [
        ({}, 4, 0.69, 2, 'sampling = "turns", or participations = 2'),
        ({}, 4, 0.8, 3, ""),
        ({}, 2, 0.69, 2, ""),  # it is not the plan that left it
        ({}, 4, 0.0, 0, ""),
        ({"noise_multiplier": 9.0}, 20, 0.5, 2, 'noise-multiplier = "auto"'),
        ({"privacy": "off"}, 20, 0.5, 2, ""),
    ],
)
def test_a_fifth_of_the_budget_is_worth_a_line(changes, planned, epsilon, rounds, words):
    line = unused_line(replace(ASKED, **changes), planned, epsilon, 1.0, rounds)
    assert words in line
    assert bool(line) == bool(words)


def test_of_a_run_that_is_over_the_median_client_counts():
    clients = {
        str(n): replace(budget(spent), rounds=2, budget=1.0) for n, spent in enumerate((0.3, 0.6, 1.0))
    }
    over = summary(clients=clients, status="completed")
    became = replace(ASKED, participations=5)
    assert "only 0.60 of 1.00: its noise is for 5 rounds" in unused_in(over, ASKED, became)
    assert unused_in(replace(over, status="budget-exhausted"), ASKED, became) == ""
    assert unused_in(summary(clients={}), ASKED, became) == ""
    assert "for 20 rounds" in unused_in(over, ASKED, replace(ASKED, participations=0))
