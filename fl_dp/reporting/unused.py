"""Advice if much of the budget is left: with more noise than needed the model learns less."""

import statistics

from fl_dp.config.flat import AUTO
from fl_dp.config.run import RunConfig
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.reports import Summary

MUCH = 0.2  # share of the budget that is worth a line


def unused_line(config: RunConfig, planned: int, epsilon: float, budget: float, rounds: int) -> str:
    """Advice if the median client leaves much of its budget; else empty.

    config: as asked for. planned: the rounds of a client for which the noise was chosen. epsilon, rounds: of
    the median client, out of `budget`.
    """
    if not config.private or epsilon >= (1 - MUCH) * budget:
        return ""
    words = f"the median client spends only {rounded_up(epsilon)} of {rounded_up(budget)}"
    if config.noise_multiplier != AUTO:
        return f'note: {words}; noise-multiplier = "auto", or more rounds, would use the rest'
    if 0 < rounds < planned:
        return (
            f"note: {words}: its noise is for {planned} rounds, and it trains in {rounds}. Less would do: "
            f'sampling = "turns", or participations = {rounds} (who is chosen more often then stops early)'
        )
    return ""


def unused_in(summary: Summary, asked: RunConfig, became: RunConfig) -> str:
    """The same for a run that is over. became: `asked` with "auto" resolved."""
    counted = summary.counted.values()
    if summary.status != "completed" or not counted:
        return ""
    median = statistics.median_low([one.cost.epsilon for one in counted])
    rounds = statistics.median_low([one.rounds for one in counted])
    budget = min(asked.epsilon, *(one.budget for one in counted))
    planned = int(became.participations) or asked.rounds
    return unused_line(asked, planned, median, budget, rounds)
